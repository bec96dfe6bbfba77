/* Sparse matrix times vector: plain rows and columns, and one function for each structure. */
#include <stdint.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

typedef int64_t i64;
typedef int32_t i32;

/* Short rows entry by entry, long ones two vectors at a time. x is never gathered by one instruction:
   that takes as long for one entry as for eight, and on many processors longer than single loads. */
#ifdef __GNUC__
__attribute__((optimize("no-tree-vectorize")))
#endif
void csr(i64 m, const i32 *restrict ptr, const i32 *restrict idx, const double *restrict val,
         const double *restrict x, double *restrict y)
{
#define X(k) x[idx[q + k]]
    for (i64 i = 0; i < m; i++) {
        i64 q = ptr[i];
        const i64 end = ptr[i + 1];
        double sum = 0;
#ifdef __AVX2__
        if (end - q >= 8) {
            __m256d some = _mm256_setzero_pd(), others = some;
            for (; q + 8 <= end; q += 8) {
                some = _mm256_fmadd_pd(_mm256_loadu_pd(val + q),
                                       _mm256_set_pd(X(3), X(2), X(1), X(0)), some);
                others = _mm256_fmadd_pd(_mm256_loadu_pd(val + q + 4),
                                         _mm256_set_pd(X(7), X(6), X(5), X(4)), others);
            }
            some = _mm256_add_pd(some, others);
            const __m128d half =
                _mm_add_pd(_mm256_castpd256_pd128(some), _mm256_extractf128_pd(some, 1));
            sum = _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
        }
#endif
        for (; q < end; q++)
            sum += val[q] * X(0);
        y[i] = sum;
    }
#undef X
}

void csc(i64 m, i64 n, const i32 *restrict ptr, const i32 *restrict idx,
         const double *restrict val, const double *restrict x, double *restrict y)
{
    memset(y, 0, m * sizeof(double));
    for (i64 j = 0; j < n; j++) {
        const double xj = x[j];
        const i32 end = ptr[j + 1];
        for (i32 q = ptr[j]; q < end; q++)
            y[idx[q]] += val[q] * xj;
    }
}

/* Column j has the entries ofs[j] to ofs[j + 1] - 1, in the rows up to last[j]. */
void band_columns(i64 m, i64 n, const i32 *restrict ofs, const i32 *restrict last,
                  const double *restrict val, const double *restrict x, double *restrict y)
{
    memset(y, 0, m * sizeof(double));
    for (i64 j = 0; j < n; j++) {
        const double xj = x[j];
        const double *column = val + ofs[j];
        const i64 count = ofs[j + 1] - ofs[j];
        double *out = y + last[j] + 1 - count;
        for (i64 k = 0; k < count; k++)
            out[k] += column[k] * xj;
    }
}

/* The same by rows. */
void band_rows(i64 m, const i32 *restrict ofs, const i32 *restrict last,
               const double *restrict val, const double *restrict x, double *restrict y)
{
    for (i64 i = 0; i < m; i++) {
        const double *row = val + ofs[i];
        const i64 count = ofs[i + 1] - ofs[i];
        const double *in = x + last[i] + 1 - count;
        double sum = 0;
        for (i64 k = 0; k < count; k++)
            sum += row[k] * in[k];
        y[i] = sum;
    }
}

/* The upper triangle, packed by columns. */
void triangle_columns(i64 n, const double *restrict val, const double *restrict x,
                      double *restrict y)
{
    memset(y, 0, n * sizeof(double));
    for (i64 j = 0; j < n; j++) {
        const double xj = x[j];
        for (i64 i = 0; i <= j; i++)
            y[i] += val[i] * xj;
        val += j + 1;
    }
}

/* The lower triangle, packed by rows. */
void triangle_rows(i64 n, const double *restrict val, const double *restrict x, double *restrict y)
{
    for (i64 i = 0; i < n; i++) {
        double sum = 0;
        for (i64 j = 0; j <= i; j++)
            sum += val[j] * x[j];
        y[i] = sum;
        val += i + 1;
    }
}

/* Column j has the blocks ptr[j] to ptr[j + 1] - 1; block b has the entries ofs[b] to
   ofs[b + 1] - 1, in the rows up to last[b]. */
void blocks_columns(i64 m, i64 n, const i32 *restrict ptr, const i32 *restrict last,
                    const i32 *restrict ofs, const double *restrict val, const double *restrict x,
                    double *restrict y)
{
    memset(y, 0, m * sizeof(double));
    for (i64 j = 0; j < n; j++) {
        const double xj = x[j];
        for (i32 b = ptr[j]; b < ptr[j + 1]; b++) {
            const i64 count = ofs[b + 1] - ofs[b];
            const double *column = val + ofs[b];
            double *out = y + last[b] + 1 - count;
            for (i64 k = 0; k < count; k++)
                out[k] += column[k] * xj;
        }
    }
}

/* The same by rows. Blocks are short: the sum stays in a vector from one block to the next, and with
   masks there is nothing left over at the end of a block. */
void blocks_rows(i64 m, const i32 *restrict ptr, const i32 *restrict last,
                 const i32 *restrict ofs, const double *restrict val, const double *restrict x,
                 double *restrict y)
{
    for (i64 i = 0; i < m; i++) {
#ifdef __AVX512F__
        __m512d sum = _mm512_setzero_pd();
        for (i32 b = ptr[i]; b < ptr[i + 1]; b++) {
            const i64 count = ofs[b + 1] - ofs[b];
            const double *row = val + ofs[b], *in = x + last[b] + 1 - count;
            i64 k = 0;
            for (; k + 8 <= count; k += 8)
                sum = _mm512_fmadd_pd(_mm512_loadu_pd(row + k), _mm512_loadu_pd(in + k), sum);
            const __mmask8 rest = (__mmask8)((1u << (count - k)) - 1);
            sum = _mm512_fmadd_pd(_mm512_maskz_loadu_pd(rest, row + k),
                                  _mm512_maskz_loadu_pd(rest, in + k), sum);
        }
        y[i] = _mm512_reduce_add_pd(sum);
#else
        double sum = 0, other = 0;
        for (i32 b = ptr[i]; b < ptr[i + 1]; b++) {
            const i64 count = ofs[b + 1] - ofs[b];
            const double *row = val + ofs[b], *in = x + last[b] + 1 - count;
            i64 k = 0;
            for (; k + 1 < count; k += 2) {
                sum += row[k] * in[k];
                other += row[k + 1] * in[k + 1];
            }
            if (k < count)
                sum += row[k] * in[k];
        }
        y[i] = sum + other;
#endif
    }
}

/* The triangle above the diagonal by columns, and the diagonal. */
void symmetric(i64 n, const i32 *restrict ptr, const i32 *restrict idx,
               const double *restrict val, const double *restrict diagonal,
               const double *restrict x, double *restrict y)
{
    memset(y, 0, n * sizeof(double));
    for (i64 j = 0; j < n; j++) {
        const double xj = x[j];
        double sum = diagonal[j] * xj;
        for (i32 q = ptr[j]; q < ptr[j + 1]; q++) {
            const i64 i = idx[q];
            y[i] += val[q] * xj;
            sum += val[q] * x[i];
        }
        y[j] += sum;
    }
}

/* Column j has one entry, in row idx[j], or none (-1). */
void permutation_columns(i64 m, i64 n, const i32 *restrict idx, const double *restrict val,
                         const double *restrict x, double *restrict y)
{
    memset(y, 0, m * sizeof(double));
    for (i64 j = 0; j < n; j++)
        if (idx[j] >= 0)
            y[idx[j]] += val[j] * x[j];
}

/* The same by rows. */
void permutation_rows(i64 m, const i32 *restrict idx, const double *restrict val,
                      const double *restrict x, double *restrict y)
{
    for (i64 i = 0; i < m; i++)
        y[i] = idx[i] >= 0 ? val[i] * x[idx[i]] : 0;
}
