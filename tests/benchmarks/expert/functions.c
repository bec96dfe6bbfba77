// The greatest common divisor at each coordinate of two lists, by Euclid, into a list.
#include <stdint.h>
#include <stdlib.h>

static int64_t gcd(int64_t a, int64_t b) {
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return llabs(a);
}

int64_t gcd_lists(int64_t n, const int64_t *a_idx, const int64_t *a, int64_t m, const int64_t *b_idx,
                  const int64_t *b, int64_t *idx, int64_t *val) {
    int64_t p = 0, q = 0, k = 0;
    while (p < n && q < m) {
        int64_t i = a_idx[p], j = b_idx[q], first = i < j ? i : j;
        val[k] = i == j ? gcd(a[p], b[q]) : i < j ? llabs(a[p]) : llabs(b[q]);
        idx[k++] = first;
        p += i == first;
        q += j == first;
    }
    for (; p < n; p++, k++) { idx[k] = a_idx[p]; val[k] = llabs(a[p]); }
    for (; q < m; q++, k++) { idx[k] = b_idx[q]; val[k] = llabs(b[q]); }
    return k;
}
