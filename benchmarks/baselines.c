/* What a careful C programmer writes: the baselines and the probes of the machine's limits.
   Built with -O3 -march=native -fopenmp. Vectors are GCC's, so any target compiles; only max, min
   and the non-temporal store are spelled for x86. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __AVX__
#include <immintrin.h>
#endif

#define W 8 /* floats per vector */
#define STREAM_BYTES (8 << 20) /* outputs of this size or more go around the cache */
#define ROW_MAX 32768 /* longest row that the row kernels keep in their own scratch */

typedef float vf __attribute__((vector_size(4 * W), may_alias));
typedef float vfu __attribute__((vector_size(4 * W), may_alias, aligned(4)));
typedef int32_t vi __attribute__((vector_size(4 * W), may_alias));

static inline vf load(const float *p) { return *(const vfu *)p; }
static inline void store(float *p, vf v) { *(vfu *)p = v; }
static inline vf splat(float x) { return (vf){} + x; }

/* stream: around the cache; p is 16-byte aligned, which large NumPy arrays are and no more */
#ifdef __AVX__
static inline vf vmax(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
static inline vf vmin(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
static inline void stream(float *p, vf v) {
    _mm_stream_ps(p, _mm256_castps256_ps128((__m256)v));
    _mm_stream_ps(p + 4, _mm256_extractf128_ps((__m256)v, 1));
}
static inline void fence(void) { _mm_sfence(); }
#else
static inline vf select(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }
static inline vf vmax(vf a, vf b) { return select(a > b, a, b); }
static inline vf vmin(vf a, vf b) { return select(a < b, a, b); }
static inline void stream(float *p, vf v) { *(vfu *)p = v; }
static inline void fence(void) {}
#endif

static inline float hsum(vf v) {
    float s = 0;
    for (int i = 0; i < W; i++) s += v[i];
    return s;
}

static inline float hmax(vf v) {
    float m = v[0];
    for (int i = 1; i < W; i++) m = v[i] > m ? v[i] : m;
    return m;
}

/* Elements before the first 32-byte boundary of p, at most n. */
static inline long head_of(const float *p, long n) {
    long head = (-(uintptr_t)p & (4 * W - 1)) / 4;
    return head < n ? head : n;
}

/* Within 2 ulp for -87 <= x <= 88; smaller x give about 1e-38. */
static inline vf vexp(vf x) {
    x = vmin(vmax(x, splat(-87.0f)), splat(88.0f));
    vf shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the low bits are round(x / ln 2) */
    vf n = shifted - 12582912.0f;
    vf r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vf p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return (vf)((vi)p + ((vi)shifted << 23));
}

/* Rational approximations of Eigen, a few ulp. */
static inline vf verf(vf x) {
    x = vmin(vmax(x, splat(-4.0f)), splat(4.0f));
    vf t = x * x;
    vf p = splat(-2.72614225801306e-10f);
    p = p * t + 2.77068142495902e-08f;
    p = p * t - 2.10102402082508e-06f;
    p = p * t - 5.69250639462346e-05f;
    p = p * t - 7.34990630326855e-04f;
    p = p * t - 2.95459980854025e-03f;
    p = p * t - 1.60960333262415e-02f;
    vf q = splat(-1.45660718464996e-05f);
    q = q * t - 2.13374055278905e-04f;
    q = q * t - 1.68282697438203e-03f;
    q = q * t - 7.37332916720468e-03f;
    q = q * t - 1.42647390514189e-02f;
    return x * p / q;
}

static inline vf vtanh(vf x) {
    x = vmin(vmax(x, splat(-7.9f)), splat(7.9f));
    vf t = x * x;
    vf p = splat(-2.76076847742355e-16f);
    p = p * t + 2.00018790482477e-13f;
    p = p * t - 8.60467152213735e-11f;
    p = p * t + 5.12229709037114e-08f;
    p = p * t + 1.48572235717979e-05f;
    p = p * t + 6.37261928875436e-04f;
    p = p * t + 4.89352455891786e-03f;
    vf q = splat(1.19825839466702e-06f);
    q = q * t + 1.18534705686654e-04f;
    q = q * t + 2.26843463243900e-03f;
    q = q * t + 4.89352518554385e-03f;
    return x * p / q;
}

/* Runs `vector` over i, W elements at a time with `put` chosen by size, and `scalar` at the edges. */
#define ELEMENTWISE(n, out, vector, scalar)                                        \
    do {                                                                           \
        long head = head_of(out, n), body = ((n) - head) / W * W;                  \
        int streams = (n) * 4 >= STREAM_BYTES;                                     \
        for (long i = 0; i < head; i++) scalar;                                    \
        _Pragma("omp parallel")                                                    \
        {                                                                          \
            if (streams) {                                                         \
                _Pragma("omp for schedule(static) nowait")                         \
                for (long i = head; i < head + body; i += W) stream(out + i, vector); \
                fence();                                                           \
            } else {                                                               \
                _Pragma("omp for schedule(static)")                                \
                for (long i = head; i < head + body; i += W) *(vf *)(out + i) = vector; \
            }                                                                      \
        }                                                                          \
        for (long i = head + body; i < (n); i++) scalar;                           \
    } while (0)

void add(const float *x, const float *y, float *out, long n) {
    ELEMENTWISE(n, out, load(x + i) + load(y + i), out[i] = x[i] + y[i]);
}

/* For the cost of a call: one thread, no choice of stores. */
void add_small(const float *x, const float *y, float *out, long n) {
    for (long i = 0; i < n; i++) out[i] = x[i] + y[i];
}

static inline vf gelu_vector(vf x) { return 0.5f * x * (1.0f + verf(x * 0.70710678f)); }
static inline float gelu_scalar(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

void gelu(const float *x, float a, float b, float *out, long n) {
    ELEMENTWISE(n, out, gelu_vector(a * load(x + i) + b), out[i] = gelu_scalar(a * x[i] + b));
}

#define GELU_INNER(x) (0.79788456f * (x) * (1.0f + 0.044715f * (x) * (x)))
static inline vf gelu_tanh_vector(vf x) { return 0.5f * x * (1.0f + vtanh(GELU_INNER(x))); }
static inline float gelu_tanh_scalar(float x) { return 0.5f * x * (1.0f + tanhf(GELU_INNER(x))); }

void gelu_tanh(const float *x, float a, float b, float *out, long n) {
    ELEMENTWISE(n, out, gelu_tanh_vector(a * load(x + i) + b), out[i] = gelu_tanh_scalar(a * x[i] + b));
}

/* --- rows: columns are a multiple of W; the caller checks ------------------------------------ */

/* dst = src * scale, around the cache when asked to and aligned */
static void scale_row(float *dst, const float *src, vf scale, long cols, int streams) {
    if (streams && !((uintptr_t)dst & 15)) {
        for (long c = 0; c < cols; c += W) stream(dst + c, load(src + c) * scale);
        return;
    }
    for (long c = 0; c < cols; c += W) store(dst + c, load(src + c) * scale);
}

void softmax(const float *x, float *y, long rows, long cols) {
    int streams = rows * cols * 4 >= STREAM_BYTES;
#pragma omp parallel
    {
        float scratch[ROW_MAX] __attribute__((aligned(64)));
#pragma omp for schedule(static) nowait
        for (long r = 0; r < rows; r++) {
            const float *row = x + r * cols;
            float *exps = cols <= ROW_MAX ? scratch : y + r * cols;
            vf best[4] = {load(row), load(row), load(row), load(row)};
            long c = 0;
            for (; c + 4 * W <= cols; c += 4 * W)
                for (int u = 0; u < 4; u++) best[u] = vmax(best[u], load(row + c + u * W));
            for (; c < cols; c += W) best[0] = vmax(best[0], load(row + c));
            vf shift = splat(hmax(vmax(vmax(best[0], best[1]), vmax(best[2], best[3]))));
            vf total[2] = {};
            for (c = 0; c + 2 * W <= cols; c += 2 * W)
                for (int u = 0; u < 2; u++) {
                    vf e = vexp(load(row + c + u * W) - shift);
                    store(exps + c + u * W, e);
                    total[u] += e;
                }
            for (; c < cols; c += W) {
                vf e = vexp(load(row + c) - shift);
                store(exps + c, e);
                total[0] += e;
            }
            scale_row(y + r * cols, exps, splat(1.0f / hsum(total[0] + total[1])), cols, streams);
        }
        fence();
    }
}

static inline float row_sum(const float *row, long cols, float shift, int squared) {
    vf total[4] = {};
    long c = 0;
    for (; c + 4 * W <= cols; c += 4 * W)
        for (int u = 0; u < 4; u++) {
            vf v = load(row + c + u * W) - shift;
            total[u] += v * (squared ? v : splat(1));
        }
    for (; c < cols; c += W) {
        vf v = load(row + c) - shift;
        total[0] += v * (squared ? v : splat(1));
    }
    return hsum((total[0] + total[1]) + (total[2] + total[3]));
}

static inline void normalise(const float *row, const float *w, const float *b, float *out, long cols,
                             float mean, float rstd, int streams) {
    if (streams && !((uintptr_t)out & 15)) {
        for (long c = 0; c < cols; c += W)
            stream(out + c, (load(row + c) - mean) * rstd * load(w + c) + (b ? load(b + c) : splat(0)));
        return;
    }
    for (long c = 0; c < cols; c += W)
        store(out + c, (load(row + c) - mean) * rstd * load(w + c) + (b ? load(b + c) : splat(0)));
}

void layer_norm(const float *x, const float *w, const float *b, float *y, long rows, long cols, float eps) {
    int streams = rows * cols * 4 >= STREAM_BYTES;
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (long r = 0; r < rows; r++) {
            const float *row = x + r * cols;
            float mean = row_sum(row, cols, 0, 0) / cols;
            float rstd = 1 / sqrtf(row_sum(row, cols, mean, 1) / cols + eps);
            normalise(row, w, b, y + r * cols, cols, mean, rstd, streams);
        }
        fence();
    }
}

void rms_norm(const float *x, const float *w, float *y, long rows, long cols, float eps) {
    int streams = rows * cols * 4 >= STREAM_BYTES;
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (long r = 0; r < rows; r++) {
            const float *row = x + r * cols;
            float rstd = 1 / sqrtf(row_sum(row, cols, 0, 1) / cols + eps);
            normalise(row, w, NULL, y + r * cols, cols, 0, rstd, streams);
        }
        fence();
    }
}

/* Inclusive prefix sum of one vector: log2(W) shifts and adds. */
static inline vf scan_vector(vf v) {
    const vf zero = {};
    v += __builtin_shuffle(zero, v, (vi){0, 8, 9, 10, 11, 12, 13, 14});
    v += __builtin_shuffle(zero, v, (vi){0, 1, 8, 9, 10, 11, 12, 13});
    v += __builtin_shuffle(zero, v, (vi){0, 1, 2, 3, 8, 9, 10, 11});
    return v;
}

void cumsum(const float *x, float *y, long rows, long cols) {
    int streams = rows * cols * 4 >= STREAM_BYTES;
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (long r = 0; r < rows; r++) {
            const float *row = x + r * cols;
            float *out = y + r * cols;
            vf carry = {};
            int aligned = streams && !((uintptr_t)out & 15);
            for (long c = 0; c < cols; c += W) {
                vf s = scan_vector(load(row + c));
                vf v = s + carry;
                carry += splat(s[W - 1]);
                if (aligned) stream(out + c, v);
                else store(out + c, v);
            }
        }
        fence();
    }
}

/* --- reductions ------------------------------------------------------------------------------ */

float sum(const float *x, long n) {
    double total = 0;
    long chunk = 1 << 15;
#pragma omp parallel for schedule(static) reduction(+ : total)
    for (long i = 0; i < n; i += chunk) {
        long size = n - i < chunk ? n - i : chunk, body = size / W * W;
        float part = row_sum(x + i, body, 0, 0);
        for (long c = body; c < size; c++) part += x[i + c];
        total += part;
    }
    return (float)total;
}

/* Four private tables per thread: equal neighbours do not wait for each other's store. */
void histogram(const int32_t *x, int32_t *counts, long n, long bins) {
    memset(counts, 0, bins * sizeof *counts);
#pragma omp parallel
    {
        int32_t *mine = calloc(4 * bins, sizeof *mine);
#pragma omp for schedule(static) nowait
        for (long i = 0; i < n / 4; i++)
            for (int u = 0; u < 4; u++) mine[u * bins + x[4 * i + u]]++;
#pragma omp single nowait
        for (long i = n / 4 * 4; i < n; i++) mine[x[i]]++;
#pragma omp critical
        for (long b = 0; b < bins; b++)
            counts[b] += mine[b] + mine[bins + b] + mine[2 * bins + b] + mine[3 * bins + b];
        free(mine);
    }
}

/* --- transpose: 8x8 blocks in registers, 16x16 in L1, whole cache lines out ----------------- */

static inline void transpose8(const float *x, long ldx, vf out[8]) {
    vf r[8], t[8];
    for (int i = 0; i < 8; i++) r[i] = load(x + i * ldx);
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shuffle(r[i], r[i + 1], (vi){0, 8, 2, 10, 4, 12, 6, 14});
        t[i + 1] = __builtin_shuffle(r[i], r[i + 1], (vi){1, 9, 3, 11, 5, 13, 7, 15});
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + j] = __builtin_shuffle(t[i + j], t[i + j + 2], (vi){0, 1, 8, 9, 4, 5, 12, 13});
            r[i + j + 2] = __builtin_shuffle(t[i + j], t[i + j + 2], (vi){2, 3, 10, 11, 6, 7, 14, 15});
        }
    for (int i = 0; i < 4; i++) {
        out[i] = __builtin_shuffle(r[i], r[i + 4], (vi){0, 1, 2, 3, 8, 9, 10, 11});
        out[i + 4] = __builtin_shuffle(r[i], r[i + 4], (vi){4, 5, 6, 7, 12, 13, 14, 15});
    }
}

static void transpose_edge(const float *x, float *y, long rows, long cols, long first, long last) {
    for (long c = 0; c < cols; c++)
        for (long r = first; r < last; r++) y[c * rows + r] = x[r * cols + c];
}

/* Two halves of 8 rows each: 8 lines at a time, because rows of 2^k floats share one set of L1. */
static inline void transpose16(const float *x, float *y, long rows, long cols) {
    float tile[16][16] __attribute__((aligned(64)));
    for (int h = 0; h < 16; h += 8)
        for (int w = 0; w < 16; w += 8) {
            vf block[8];
            transpose8(x + h * cols + w, cols, block);
            for (int i = 0; i < 8; i++) store(&tile[w + i][h], block[i]);
        }
    for (int i = 0; i < 16; i++) {
        stream(y + i * rows, load(&tile[i][0]));
        stream(y + i * rows + 8, load(&tile[i][8]));
    }
}

/* rows and cols are multiples of 16; strips of rows start where a line of the output does */
void transpose(const float *x, float *y, long rows, long cols) {
    const long TILE = 128;
    const long head = (-(uintptr_t)y & 63) / 4, strips = (rows - head) / 16;
    transpose_edge(x, y, rows, cols, 0, head);
    transpose_edge(x, y, rows, cols, head + strips * 16, rows);
#pragma omp parallel
    {
#pragma omp for schedule(static) collapse(2) nowait
        for (long s0 = 0; s0 < strips; s0 += TILE / 16)
            for (long c0 = 0; c0 < cols; c0 += TILE)
                for (long s = s0; s < s0 + TILE / 16 && s < strips; s++)
                    for (long c = c0; c < c0 + TILE && c < cols; c += 16)
                        transpose16(x + (head + s * 16) * cols + c, y + c * rows + head + s * 16, rows, cols);
        fence();
    }
}

/* --- the first place of an extreme of each row ---------------------------------------------- */

#define PLACE(name, T, better)                                  \
    void name(const T *x, int64_t *out, long rows, long cols) { \
        _Pragma("omp parallel for schedule(static)")            \
        for (long r = 0; r < rows; r++) {                       \
            const T *row = x + r * cols;                        \
            T best = row[0];                                    \
            long place = 0;                                     \
            for (long c = 1; c < cols; c++)                     \
                if (row[c] better best) {                       \
                    best = row[c];                              \
                    place = c;                                  \
                }                                               \
            out[r] = place;                                     \
        }                                                       \
    }
#define PLACES(name, T) PLACE(argmax_##name, T, >) PLACE(argmin_##name, T, <)

PLACES(float32, float)
PLACES(float64, double)
PLACES(int8, int8_t)
PLACES(int16, int16_t)
PLACES(int32, int32_t)
PLACES(int64, int64_t)
PLACES(uint8, uint8_t)
PLACES(uint16, uint16_t)
PLACES(uint32, uint32_t)
PLACES(uint64, uint64_t)

/* --- threads for peers that bring none ------------------------------------------------------ */

typedef void (*row_function)(const float *x, float *y, float a, float b, long first, long last, long cols);

void over_rows(row_function f, const float *x, float *y, float a, float b, long rows, long cols) {
    const long step = 1 + 16384 / cols;
#pragma omp parallel for schedule(static)
    for (long r = 0; r < rows; r += step) f(x, y, a, b, r, r + step < rows ? r + step : rows, cols);
}

/* --- the machine's limits -------------------------------------------------------------------- */

/* STREAM's triad, a = b + s * c, with non-temporal stores: 12 bytes per element. */
void triad(float *a, const float *b, const float *c, float s, long n) {
    ELEMENTWISE(n, a, load(b + i) + s * load(c + i), a[i] = b[i] + s * c[i]);
}

/* 12 independent chains of fused multiply-add per thread; returns the number of flops done. */
double fma_peak(long iterations, float *sink) {
    double flops = 0;
#pragma omp parallel reduction(+ : flops)
    {
        vf acc[12], m = splat(0.999f), k = splat(1e-3f);
        for (int i = 0; i < 12; i++) acc[i] = splat(i);
        for (long it = 0; it < iterations; it++) {
#pragma GCC unroll 12
            for (int i = 0; i < 12; i++) acc[i] = acc[i] * m + k;
        }
        vf all = {};
        for (int i = 0; i < 12; i++) all += acc[i];
#pragma omp critical
        *sink += hsum(all);
        flops += 2.0 * 12 * W * iterations;
    }
    return flops;
}
