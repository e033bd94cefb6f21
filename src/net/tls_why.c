/*
 * Sentences for what goes wrong in TLS. What the other side wrote (names in its certificate) is
 * shown with only its plain characters, and cut.
 */
#include "base/str.h"
#include "net/tls_parts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

enum { ALERT_CERTIFICATE_REQUIRED = 116, NAMES_SHOWN = 3 };

/* Appends n untrusted bytes to a text of `size`, each odd one as '?'. */
static void add_plain(char *text, size_t size, const uint8_t *p, size_t n)
{
	size_t at = strlen(text);

	for (size_t i = 0; i < n && i < 64 && at + 1 < size; i++)
		text[at++] = p[i] > ' ' && p[i] < 0x7f && p[i] != '\'' ? (char)p[i] : '?';
	text[at] = '\0';
}

/* "'a', 'b' and others", or "". */
static void names_of(X509 *x, char *text, size_t size)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
	char ip[INET6_ADDRSTRLEN];
	int shown = 0;

	*text = '\0';
	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		int type;
		const ASN1_STRING *v =
			GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
		const uint8_t *p = ASN1_STRING_get0_data(v);
		size_t n = (size_t)ASN1_STRING_length(v);

		if (type != GEN_DNS && type != GEN_IPADD)
			continue;
		if (shown++ == NAMES_SHOWN) {
			strncat(text, " and others", size - strlen(text) - 1);
			break;
		}
		strncat(text, shown > 1 ? ", '" : "'", size - strlen(text) - 1);
		if (type == GEN_IPADD) {
			str_copy(ip, sizeof(ip), "?");
			if (n == 4 || n == 16)
				inet_ntop(n == 4 ? AF_INET : AF_INET6, p, ip, sizeof(ip));
			p = (const uint8_t *)ip;
			n = strlen(ip);
		}
		add_plain(text, size, p, n);
		strncat(text, "'", size - strlen(text) - 1);
	}
	GENERAL_NAMES_free(names);
}

static int why_time(struct channel_tls *c, bool expired)
{
	const ASN1_TIME *at = NULL;
	char day[16] = "";
	struct tm tm;

	if (c->refused)
		at = expired ? X509_get0_notAfter(c->refused) : X509_get0_notBefore(c->refused);
	if (at && ASN1_TIME_to_tm(at, &tm))
		strftime(day, sizeof(day), "%Y-%m-%d", &tm);
	return err_set(&c->channel.error, ERR_DENIED, EKEYREJECTED,
		       "the certificate of %s'%s' %s %s)",
		       c->refused_depth > 0 ? "an issuer above " : "", c->host,
		       expired ? "has expired (on" : "is not valid yet (before", *day ? day : "?");
}

/* The upstream's certificate was refused by us. */
static int why_certificate(struct channel_tls *c, long verdict)
{
	const char *how = "";
	char names[128] = "";

	switch (verdict) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		if (c->refused)
			names_of(c->refused, names, sizeof(names));
		return err_set(&c->channel.error, ERR_DENIED, EKEYREJECTED,
			       *names ? "the certificate of '%s' is for %s"
				      : "the certificate of '%s' names no host at all",
			       c->host, names);
	case X509_V_ERR_CERT_HAS_EXPIRED:
		return why_time(c, true);
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return why_time(c, false);
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
		how = ", only by itself";
		break;
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_CERT_SIGNATURE_FAILURE:
		break;
	default:
		return err_set(&c->channel.error, ERR_DENIED, EKEYREJECTED,
			       "the certificate of '%s' is refused: %s", c->host,
			       X509_verify_cert_error_string(verdict));
	}
	return err_set(&c->channel.error, ERR_DENIED, EKEYREJECTED,
		       "the certificate of '%s' is not signed by anyone this host trusts%s%s",
		       c->host, how, roots_note(c->tls->roots));
}

static int why_box_alert(struct channel_tls *c, int alert, const char *name)
{
	switch (alert) {
	case SSL_AD_UNKNOWN_CA:
	case SSL_AD_BAD_CERTIFICATE:
	case SSL_AD_CERTIFICATE_UNKNOWN:
	case SSL_AD_UNSUPPORTED_CERTIFICATE:
		return err_set(&c->channel.error, ERR_DENIED, EKEYREJECTED,
			       "the client in the box does not trust Cove's certificate (it sent "
			       "alert %s): let it use the system's certificates, or give '%s' a "
			       "rule with tls: pass",
			       name, c->host);
	default:
		return err_set(&c->channel.error, ERR_PROTOCOL, EPROTO,
			       "the client in the box ended TLS for '%s' with alert %s", c->host,
			       name);
	}
}

static int why_upstream_alert(struct channel_tls *c, int alert, const char *name)
{
	/* How servers say that they wanted a certificate differs; that they asked for one is sure.
	 */
	if (alert == ALERT_CERTIFICATE_REQUIRED ||
	    (c->asked && (alert == SSL_AD_HANDSHAKE_FAILURE || alert == SSL_AD_BAD_CERTIFICATE ||
			  alert == SSL_AD_ACCESS_DENIED || alert == SSL_AD_CERTIFICATE_UNKNOWN)))
		return err_set(&c->channel.error, ERR_DENIED, EKEYREJECTED,
			       "'%s' wants a client certificate, and the rule gives none: see "
			       "client_cert",
			       c->host);
	switch (alert) {
	case SSL_AD_BAD_CERTIFICATE:
	case SSL_AD_UNKNOWN_CA:
	case SSL_AD_CERTIFICATE_EXPIRED:
	case SSL_AD_CERTIFICATE_REVOKED:
	case SSL_AD_CERTIFICATE_UNKNOWN:
	case SSL_AD_UNSUPPORTED_CERTIFICATE:
	case SSL_AD_ACCESS_DENIED:
		return err_set(&c->channel.error, ERR_DENIED, EKEYREJECTED,
			       "'%s' refused %s (it sent alert %s)", c->host,
			       c->has_id ? "the client certificate"
					 : "a client without a certificate",
			       name);
	case SSL_AD_PROTOCOL_VERSION:
		return err_set(&c->channel.error, ERR_PROTOCOL, EPROTO,
			       "'%s' speaks neither TLS 1.2 nor TLS 1.3", c->host);
	case SSL_AD_NO_APPLICATION_PROTOCOL:
		return err_set(
			&c->channel.error, ERR_PROTOCOL, EPROTO,
			"'%s' speaks HTTP/2 only (as gRPC does), and the door HTTP/1.1 where "
			"it intercepts: give it a rule with tls: pass",
			c->host);
	case SSL_AD_UNRECOGNIZED_NAME:
		return err_set(&c->channel.error, ERR_PROTOCOL, EPROTO,
			       "the server at '%s' does not know that name", c->host);
	default:
		return err_set(&c->channel.error, ERR_PROTOCOL, EPROTO,
			       "'%s' ended TLS with alert %s", c->host, name);
	}
}

int tls_why_below(struct channel_tls *c, int r)
{
	if (c->below->error.kind != ERR_NONE) {
		c->channel.error = c->below->error;
		return r;
	}
	return err_errno(&c->channel.error, -r, "the connection %s '%s'",
			 c->is_server ? "from the box for" : "to", c->host);
}

static int why_protocol(struct channel_tls *c, int reason)
{
	const char *who = c->is_server ? "the client in the box" : "the server";
	const char *why = ERR_reason_error_string(ERR_peek_error());

	switch (reason) {
	case SSL_R_UNEXPECTED_EOF_WHILE_READING:
		return err_set(&c->channel.error, ERR_PROTOCOL, ECONNRESET,
			       c->up ? "%s closed the connection for '%s' without saying that it "
				       "was the end"
				     : "%s closed the connection for '%s' during the TLS handshake",
			       who, c->host);
	case SSL_R_UNSUPPORTED_PROTOCOL:
	case SSL_R_VERSION_TOO_LOW:
		return err_set(&c->channel.error, ERR_PROTOCOL, EPROTO,
			       "%s for '%s' speaks neither TLS 1.2 nor TLS 1.3", who, c->host);
	case SSL_R_WRONG_VERSION_NUMBER:
	case SSL_R_HTTP_REQUEST:
	case SSL_R_HTTPS_PROXY_REQUEST:
	case SSL_R_PACKET_LENGTH_TOO_LONG:
		return err_set(&c->channel.error, ERR_PROTOCOL, EPROTO,
			       "%s for '%s' does not speak TLS here", who, c->host);
	case SSL_R_NO_APPLICATION_PROTOCOL:
		return err_set(
			&c->channel.error, ERR_PROTOCOL, EPROTO,
			"%s for '%s' offers HTTP/2 only (gRPC does) or another protocol, and "
			"the door reads HTTP/1.1: give the host a rule with tls: pass",
			who, c->host);
	default:
		return err_set(&c->channel.error, ERR_PROTOCOL, EPROTO, "TLS with %s for '%s': %s",
			       who, c->host, why ? why : "it failed");
	}
}

int tls_why(struct channel_tls *c)
{
	unsigned long code = ERR_peek_error();
	long verdict = SSL_get_verify_result(c->ssl);
	int reason = ERR_GET_REASON(code), alert = reason - SSL_AD_REASON_OFFSET, r;
	char name[48];

	if (c->below_error < 0) {
		r = tls_why_below(c, c->below_error);
	} else if (!c->is_server && !c->up && verdict != X509_V_OK) {
		r = why_certificate(c, verdict);
	} else if (ERR_GET_LIB(code) == ERR_LIB_SSL && alert > 0) {
		/* "unknown_ca", as the standards spell it; OpenSSL has "unknown CA". */
		str_copy(name, sizeof(name),
			 alert == ALERT_CERTIFICATE_REQUIRED ? "certificate_required"
							     : SSL_alert_desc_string_long(alert));
		if (strcmp(name, "unknown") == 0)
			snprintf(name, sizeof(name), "%d", alert);
		for (char *p = name; *p; p++)
			*p = *p == ' ' ? '_' : (char)tolower(*p);
		r = c->is_server ? why_box_alert(c, alert, name)
				 : why_upstream_alert(c, alert, name);
	} else {
		r = why_protocol(c, reason);
	}
	ERR_clear_error();
	return r;
}
