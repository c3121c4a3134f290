// CellJoin band join: the hand-written baseline for streamjoin's generated kernels.
//
//   l.x BETWEEN r.a - B AND r.a + B   AND   l.y BETWEEN r.b - F AND r.b + F
//
// with x, a int32 and y, b float32 (float32 arithmetic, so the result is exactly
// that of `(y >= b - F) & (y <= b + F)` in NumPy).
//
// Build:  g++ -O3 -march=native -shared -fPIC celljoin.cpp -o libcelljoin.so
//
// One side is stored (n tuples in columns, and coord = window coordinate), the
// other probes (m tuples, each with its window [lo, hi)).  Pair (i, j) is written
// when the predicate holds and lo[i] <= coord[j] < hi[i].  Two entry points:
//   celljoin_l : left  (x, y) stored, right (a, b) probes
//   celljoin_r : right (a, b) stored, left  (x, y) probes
//
// Resumable: the work is cut into units (block of the window x tile of probes).
// A unit starts only if its worst case still fits into the output, so no pair is
// ever lost or repeated.  The caller drains out_i/out_j and calls again with the
// returned *unit until it reaches celljoin_units(n, m).  cap >= celljoin_min_cap().
//
// Bands are >= 0; int32 bounds wrap, which is harmless while x +- B fits in int32.
#include <algorithm>
#include <cstdint>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace {
constexpr int64_t BLOCK = 2048;  // tuples per block: 16 KB of columns, half of L1
constexpr int TILE = 4;          // probes held in registers against one block

struct Out { int32_t *i, *j; int64_t k; };

struct Sides {
    const int32_t *si; const float *sf; const int64_t *coord;              // stored
    const int32_t *pi; const float *pf; const int64_t *lo, *hi;            // probes
    int32_t bi; float bf;                                                  // bands
};

// The float bounds belong to the right side: to the probe (LEFT stored) or to the tuple.
template <bool LEFT>
inline bool pair_matches(const Sides &d, int64_t p, int64_t j) {
    const uint32_t dist = uint32_t(d.si[j]) - (uint32_t(d.pi[p]) - uint32_t(d.bi));
    const float y = LEFT ? d.sf[j] : d.pf[p], b = LEFT ? d.pf[p] : d.sf[j];
    return (dist <= 2u * uint32_t(d.bi)) & (y >= b - d.bf) & (y <= b + d.bf);
}

// Portable: tails, and machines without AVX-512.  A first pass without branches
// (the compiler vectorises it) asks whether a slice has a hit at all; only slices
// that have one are looked at again.
template <bool LEFT>
void scan_plain(const Sides &d, int64_t p0, int64_t p1, int64_t j0, int64_t j1, Out &o) {
    for (int64_t s = j0; s < j1; s += 512) {
        const int64_t e = std::min(j1, s + 512);
        for (int64_t p = p0; p < p1; ++p) {
            int any = 0;
            for (int64_t j = s; j < e; ++j) any |= pair_matches<LEFT>(d, p, j);
            if (!any) continue;
            const int64_t lo = d.lo[p], hi = d.hi[p];
            for (int64_t j = s; j < e; ++j) {  // branch-free: write always, advance on a match
                o.i[o.k] = int32_t(p);
                o.j[o.k] = int32_t(j);
                o.k += pair_matches<LEFT>(d, p, j) & (d.coord[j] >= lo) & (d.coord[j] < hi);
            }
        }
    }
}

#ifdef __AVX512F__
// T probes against tuples [j0, j1), j1 - j0 a multiple of 16.
//
// The inner loop uses the two cheapest forms of a band on this hardware (vector compares
// have half the throughput of vector arithmetic):
//   int32   |x - a| <= B  <=>  uint32(x - (a - B)) <= 2B     sub, cmp
//   float32 |y - b| <= F'                                    sub, and, cmp
// F' is F and a little: |y - b| <= F can round differently from y BETWEEN b - F AND b + F,
// so the loop filters with a band that is surely wide enough, and hits are tested exactly.
template <bool LEFT, int T>
void scan_avx512(const Sides &d, int64_t p0, int64_t j0, int64_t j1, Out &o) {
    const __m512i width = _mm512_set1_epi32(2 * d.bi);
    const __m512 bf = _mm512_set1_ps(d.bf);
    __m512i base[T];
    __m512 f[T], wide[T];
    for (int t = 0; t < T; ++t) {
        const float v = d.pf[p0 + t];
        base[t] = _mm512_set1_epi32(int32_t(uint32_t(d.pi[p0 + t]) - uint32_t(d.bi)));
        f[t] = _mm512_set1_ps(v);
        wide[t] = _mm512_set1_ps(d.bf + (__builtin_fabsf(v) + d.bf) * 0x1p-21f);
    }
    for (int64_t j = j0; j < j1; j += 16) {
        const __m512i x = _mm512_loadu_si512(d.si + j);
        const __m512 y = _mm512_loadu_ps(d.sf + j);
        __mmask16 hit[T];
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
            const __mmask16 m = _mm512_cmple_epu32_mask(_mm512_sub_epi32(x, base[t]), width);
            hit[t] = _mm512_mask_cmp_ps_mask(m, _mm512_abs_ps(_mm512_sub_ps(y, f[t])), wide[t], _CMP_LE_OQ);
        }
        bool none;  // one branch for 16 x T comparisons
        if constexpr (T == 4)
            none = _kortestz_mask32_u8(_mm512_kunpackw(hit[0], hit[1]), _mm512_kunpackw(hit[2], hit[3]));
        else
            none = hit[0] == 0;
        if (__builtin_expect(none, 1)) continue;
        const __m512i c0 = _mm512_loadu_si512(d.coord + j), c1 = _mm512_loadu_si512(d.coord + j + 8);
        const __m512i id = _mm512_add_epi32(_mm512_set1_epi32(int32_t(j)),
            _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        for (int t = 0; t < T; ++t) {
            if (!hit[t]) continue;
            const __m512i lo = _mm512_set1_epi64(d.lo[p0 + t]), hi = _mm512_set1_epi64(d.hi[p0 + t]);
            const unsigned w0 = _mm512_mask_cmplt_epi64_mask(_mm512_cmple_epi64_mask(lo, c0), c0, hi);
            const unsigned w1 = _mm512_mask_cmplt_epi64_mask(_mm512_cmple_epi64_mask(lo, c1), c1, hi);
            const __m512 l = LEFT ? y : f[t], r = LEFT ? f[t] : y;  // l.y and r.b
            const __mmask16 e = _mm512_mask_cmp_ps_mask(
                _mm512_mask_cmp_ps_mask(hit[t], l, _mm512_sub_ps(r, bf), _CMP_GE_OQ),
                l, _mm512_add_ps(r, bf), _CMP_LE_OQ);
            const __mmask16 m = __mmask16(e & (w0 | w1 << 8));
            // Compress in a register: the memory form of vpcompressd is microcoded on Zen 4.
            _mm512_storeu_si512(o.j + o.k, _mm512_maskz_compress_epi32(m, id));
            _mm512_storeu_si512(o.i + o.k, _mm512_set1_epi32(int32_t(p0 + t)));
            o.k += __builtin_popcount(m);
        }
    }
}
#endif

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <bool LEFT>
int64_t run(const Sides &d, int64_t n, int64_t m, int32_t *out_i, int32_t *out_j, int64_t cap,
            int64_t *unit) {
    Out o{out_i, out_j, 0};
    const int64_t tiles = ceil_div(m, TILE), units = ceil_div(n, BLOCK) * tiles;
    int64_t u = *unit;
    for (; u < units && o.k <= cap - BLOCK * TILE; ++u) {
        // All tiles of probes pass over one block while it is in L1.
        const int64_t j0 = (u / tiles) * BLOCK, j1 = std::min(n, j0 + BLOCK);
        const int64_t p0 = (u % tiles) * TILE, p1 = std::min(m, p0 + TILE);
        int64_t jv = j0;
#ifdef __AVX512F__
        jv += (j1 - j0) / 16 * 16;
        if (p1 - p0 == TILE)
            scan_avx512<LEFT, TILE>(d, p0, j0, jv, o);
        else
            for (int64_t p = p0; p < p1; ++p) scan_avx512<LEFT, 1>(d, p, j0, jv, o);
#endif
        if (jv < j1) scan_plain<LEFT>(d, p0, p1, jv, j1, o);
    }
    *unit = u;
    return o.k;
}
}  // namespace

#define ARGS int64_t n, const int32_t *si, const float *sf, const int64_t *coord, \
             int64_t m, const int32_t *pi, const float *pf, const int64_t *lo, const int64_t *hi, \
             int32_t bi, float bf, int32_t *out_i, int32_t *out_j, int64_t cap, int64_t *unit

extern "C" {
int64_t celljoin_min_cap() { return BLOCK * TILE; }
int64_t celljoin_units(int64_t n, int64_t m) { return ceil_div(n, BLOCK) * ceil_div(m, TILE); }
int celljoin_avx512() {
#ifdef __AVX512F__
    return 1;
#else
    return 0;
#endif
}
// Both return the number of pairs written; *unit is where to go on.
int64_t celljoin_l(ARGS) {
    return run<true>({si, sf, coord, pi, pf, lo, hi, bi, bf}, n, m, out_i, out_j, cap, unit);
}
int64_t celljoin_r(ARGS) {
    return run<false>({si, sf, coord, pi, pf, lo, hi, bi, bf}, n, m, out_i, out_j, cap, unit);
}
}
