/*
 * SHA-256 by the instructions that x86 processors have for it, about seven times as fast; see
 * sha.h.
 *
 * How it works. sha256rnds2 does two rounds. It wants the eight words of the state in two registers
 * as ABEF and CDGH, highest first, and two words of the schedule, with their constants added, in a
 * third. The schedule moves by four words at a time: sha256msg1 and sha256msg2 are its two halves,
 * and what lies between them is one addition of words that are seven back.
 */
#include "base/sha.h"

#ifdef __x86_64__

#include <cpuid.h>
#include <immintrin.h>

bool sha256_has_fast(void)
{
	enum { UNKNOWN, NO, YES };
	static int known; /* two threads that ask at once find the same */
	unsigned a, b, c, d;

	if (known == UNKNOWN) {
		bool has = __get_cpuid(1, &a, &b, &c, &d) && c >> 9 & 1 && c >> 19 & 1;

		has = has && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1;
		known = has ? YES : NO;
	}
	return known == YES;
}

#define FAST __attribute__((target("sha,sse4.1,ssse3")))

/* Four rounds with the words w of the schedule. */
FAST static inline void four_rounds(__m128i *abef, __m128i *cdgh, __m128i w, const uint32_t *k)
{
	__m128i sum = _mm_add_epi32(w, _mm_loadu_si128((const __m128i *)k));

	*cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, sum);
	*abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(sum, 0x0e));
}

/* The next four words, after w0 to w3. */
FAST static inline __m128i next_words(__m128i w0, __m128i w1, __m128i w2, __m128i w3)
{
	__m128i seven_back = _mm_alignr_epi8(w3, w2, 4);

	return _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), seven_back), w3);
}

FAST static inline __m128i load_words(const uint8_t *p)
{
	const __m128i big_endian =
		_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);

	return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p), big_endian);
}

FAST void sha256_compress_fast(uint32_t state[8], const uint8_t *blocks, size_t count)
{
	const uint32_t *k = sha256_constants;
	__m128i dcba = _mm_loadu_si128((const __m128i *)state);
	__m128i hgfe = _mm_loadu_si128((const __m128i *)(state + 4));
	__m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
	__m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);

	for (; count > 0; count--, blocks += 64) {
		__m128i abef_before = abef, cdgh_before = cdgh;
		__m128i w0 = load_words(blocks), w1 = load_words(blocks + 16);
		__m128i w2 = load_words(blocks + 32), w3 = load_words(blocks + 48);

		for (int i = 0; i < 64; i += 16) {
			four_rounds(&abef, &cdgh, w0, k + i);
			four_rounds(&abef, &cdgh, w1, k + i + 4);
			four_rounds(&abef, &cdgh, w2, k + i + 8);
			four_rounds(&abef, &cdgh, w3, k + i + 12);
			if (i == 48)
				break;
			w0 = next_words(w0, w1, w2, w3);
			w1 = next_words(w1, w2, w3, w0);
			w2 = next_words(w2, w3, w0, w1);
			w3 = next_words(w3, w0, w1, w2);
		}
		abef = _mm_add_epi32(abef, abef_before);
		cdgh = _mm_add_epi32(cdgh, cdgh_before);
	}
	/* Back to a to d, e to h. */
	dcba = _mm_shuffle_epi32(abef, 0x1b);
	hgfe = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)state, _mm_blend_epi16(dcba, hgfe, 0xf0));
	_mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(hgfe, dcba, 8));
}

#else

bool sha256_has_fast(void)
{
	return false;
}

void sha256_compress_fast(uint32_t state[8], const uint8_t *blocks, size_t count)
{
}

#endif
