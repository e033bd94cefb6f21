/* The part of limits.h about images: archives, blobs and registries. Include limits.h. */
#pragma once

/* Blobs (src/store/blobs.c). */
#define BLOB_BYTES_MAX (64ull << 30) /* one blob: a compressed layer */

/* References, credentials and registries (src/oci). */
#define OCI_HOST_MAX	      255u /* a registry's host with its port */
#define OCI_PATH_MAX	      255u /* an image's path there */
#define OCI_TAG_MAX	      128u
#define OCI_TYPE_MAX	      127u	   /* a media type */
#define OCI_MANIFEST_MAX      (4u << 20)   /* bytes of a manifest or an index */
#define OCI_INDEX_ITEMS_MAX   1024u	   /* platforms of one image */
#define OCI_LAYERS_MAX	      127u	   /* of one image */
#define OCI_CHALLENGE_MAX     (8u << 10)   /* the header that asks for a login */
#define OCI_AUTH_FILE_MAX     (1u << 20)   /* a file of logins */
#define OCI_SECRET_MAX	      (64u << 10)  /* one password or token */
#define OCI_HELPER_MAX	      (128u << 10) /* what a credential helper prints */
#define OCI_HELPER_MS	      60000u	   /* for its answer */
#define OCI_URL_MAX	      (8u << 10)
#define OCI_HEADERS_MAX	      (256u << 10) /* bytes of all headers of one answer */
#define OCI_REDIRECTS_MAX     5u
#define OCI_PARALLEL	      4u	     /* blobs that are fetched at once */
#define OCI_TRIES_MAX	      6u	     /* in a row without a byte more */
#define OCI_RETRIES_MAX	      100u	     /* of one blob, with progress in between */
#define OCI_RETRY_AFTER_MAX_S 60u	     /* that a registry may make us wait */
#define OCI_SMALL_MS	      120000u	     /* for a manifest or a token as a whole */
#define OCI_STALL_MS	      60000u	     /* without 1 KiB a second: given up, and tried again */
#define OCI_CONFIG_MAX	      (8u << 20)     /* bytes of an image's configuration */
#define OCI_IMAGE_BYTES_MAX   (256ull << 30) /* of all blobs of one image */

#define OCI_ARCHIVE_FILES_MAX 2048u /* files of an archive of images */
#define OCI_UNPACK_PARALLEL   4u    /* layers that are unpacked at once */

/* Compressed streams (src/oci/expand.c). */
#define EXPAND_PEEK_MAX	  (1u << 20)
#define EXPAND_MEMORY_MAX (1u << 30)	 /* of a decompressor, all of its address space */
#define EXPAND_BYTES_MAX  (512ull << 30) /* that come out, unless --max-size says less */
#define EXPAND_FREE_MAX	  (1ull << 30)	 /* of them whatever came in; beyond that: */
#define EXPAND_RATIO_MAX  200u		 /* for each byte */

/* Archives and layers (src/store/tar.c, unpack.c, layer_tar.c). */
#define TAR_NAME_MAX	4095u	   /* path or link target of an entry, without the NUL */
#define TAR_DEPTH_MAX	1024u	   /* directories above an entry */
#define TAR_META_MAX	(1u << 20) /* one extended header */
#define TAR_ENTRIES_MAX 2000000u
#define TAR_FILE_MAX	(1ull << 40)   /* one file's bytes */
#define UNPACK_DIRS_MAX (256u << 20)   /* memory for directories whose mode is set at the end */
#define LAYER_BYTES_MAX (256ull << 30) /* what a layer's files hold, or --max-size */
#define LAYER_NAMES_MAX (256u << 20)   /* names held while a layer is packed */
#define PASSWD_FILE_MAX (1u << 20)     /* an image's /etc/passwd */
