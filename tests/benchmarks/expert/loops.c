/* Loops of numbers alone. */
#include <stdint.h>

typedef int64_t i64;

/* The number up to n with the longest way to 1, where even numbers are halved and others become 3 x + 1. */
i64 collatz(i64 n)
{
    i64 most = 0, best = 1;
    for (i64 start = 1; start <= n; start++) {
        i64 x = start, steps = 0;
        while (x != 1) {
            x = x % 2 == 0 ? x / 2 : 3 * x + 1;
            steps++;
        }
        if (steps > most) {
            most = steps;
            best = start;
        }
    }
    return best;
}

/* The sum of n pseudo-random numbers, each made of the one before. */
i64 random_sum(i64 n)
{
    i64 x = 1, total = 0;
    for (i64 k = 0; k < n; k++) {
        x = (x * 1103515245 + 12345) % 2147483648;
        total += x;
    }
    return total;
}
