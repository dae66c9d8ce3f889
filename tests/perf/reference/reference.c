/* Plain C rates of a CPU, to compare measured ceilings with: load bandwidth per level, multiply-add peaks.
 *
 * Started with the number of threads. Every line of standard input is one measurement:
 *   load BYTES SECONDS          each thread reads BYTES of its own again and again
 *   shared BYTES SECONDS        all threads read the same BYTES again and again
 *   walk TOTAL WINDOW SECONDS   the threads together read one window of TOTAL bytes after the other
 *   fp64|fp32|bf16|int8 SECONDS multiply-adds on registers (tiles where the processor has AMX)
 *   dot16|dot8 SECONDS          the same with vector dot products where the processor has both
 *   plain64|plain32 SECONDS     the same number of multiplications and additions, apart
 * Answer: the best sample in bytes or operations per second, or 0 where the processor cannot do it.
 */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#ifdef __AMX_TILE__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#ifdef __AVX512F__
typedef __m512 F;
typedef __m512d D;
#define LANES 16
#define LOAD(p) _mm512_load_ps(p)
#define OR(a, b) _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(a), _mm512_castps_si512(b)))
#define FMA32 _mm512_fmadd_ps
#define FMA64 _mm512_fmadd_pd
#define MUL32 _mm512_mul_ps
#define ADD32 _mm512_add_ps
#define MUL64 _mm512_mul_pd
#define ADD64 _mm512_add_pd
#define SET32 _mm512_set1_ps
#define SET64 _mm512_set1_pd
#else
typedef __m256 F;
typedef __m256d D;
#define LANES 8
#define LOAD(p) _mm256_load_ps(p)
#define OR(a, b) _mm256_or_ps(a, b)
#define FMA32 _mm256_fmadd_ps
#define FMA64 _mm256_fmadd_pd
#define MUL32 _mm256_mul_ps
#define ADD32 _mm256_add_ps
#define MUL64 _mm256_mul_pd
#define ADD64 _mm256_add_pd
#define SET32 _mm256_set1_ps
#define SET64 _mm256_set1_pd
#endif

#define CHAINS 12
#define MOST_THREADS 64
#define KEEP(x) __asm__ volatile("" : "+v"(x))

typedef double (*Kernel)(void *memory, long bytes, long repeats); /* returns the work that it did */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* ---- kernels -------------------------------------------------------------------------------- */

static double load(void *memory, long bytes, long repeats) {
    F sums[8];
    long step = 8 * LANES, count = bytes / 4 / step * step;
    for (int j = 0; j < 8; j++) sums[j] = SET32(0);
    for (long r = 0; r < repeats; r++) {
        const float *p = memory, *end = p + count;
        for (; p < end; p += step)
            for (int j = 0; j < 8; j++) sums[j] = OR(sums[j], LOAD(p + LANES * j));
        __asm__ volatile("" ::: "memory"); /* the next pass reads again */
    }
    for (int j = 0; j < 8; j++) KEEP(sums[j]);
    return 4.0 * count * repeats;
}

#define CHAIN_KERNEL(NAME, TYPE, SET, WIDTH, STEP)                      \
    static double NAME(void *memory, long bytes, long repeats) {        \
        TYPE c[CHAINS], y = SET(0.5), z = SET(0.25);                    \
        (void)memory, (void)bytes;                                      \
        for (int j = 0; j < CHAINS; j++) c[j] = SET(1.0 + j);           \
        for (long r = 0; r < repeats; r++) {                            \
            for (int j = 0; j < CHAINS; j++) c[j] = STEP;               \
            for (int j = 0; j < CHAINS; j++) c[j] = STEP;               \
            KEEP(y);                                                    \
        }                                                               \
        for (int j = 0; j < CHAINS; j++) KEEP(c[j]);                    \
        return 2.0 * 2 * CHAINS * (WIDTH) * repeats;                    \
    }

CHAIN_KERNEL(fma64, D, SET64, LANES / 2, FMA64(c[j], y, z))
CHAIN_KERNEL(fma32, F, SET32, LANES, FMA32(c[j], y, z))
CHAIN_KERNEL(plain64, D, SET64, LANES / 2, ADD64(MUL64(c[j], y), z))
CHAIN_KERNEL(plain32, F, SET32, LANES, ADD32(MUL32(c[j], y), z))

#ifdef __AVX512BF16__
static double dot16(void *memory, long bytes, long repeats) {
    F c[CHAINS];
    __m512bh y = (__m512bh)_mm512_set1_epi16(0x3f00), z = (__m512bh)_mm512_set1_epi16(0x3e80);
    (void)memory, (void)bytes;
    for (int j = 0; j < CHAINS; j++) c[j] = SET32(1.0f + j);
    for (long r = 0; r < repeats; r++) {
        for (int j = 0; j < CHAINS; j++) c[j] = _mm512_dpbf16_ps(c[j], y, z);
        __asm__ volatile("" : "+v"(y));
    }
    for (int j = 0; j < CHAINS; j++) KEEP(c[j]);
    return 2.0 * CHAINS * 32 * repeats;
}
#else
#define dot16 NULL
#endif

#ifdef __AVX512VNNI__
static double dot8(void *memory, long bytes, long repeats) {
    __m512i c[CHAINS], y = _mm512_set1_epi8(3), z = _mm512_set1_epi8(5);
    (void)memory, (void)bytes;
    for (int j = 0; j < CHAINS; j++) c[j] = _mm512_set1_epi32(j);
    for (long r = 0; r < repeats; r++) {
        for (int j = 0; j < CHAINS; j++) c[j] = _mm512_dpbusd_epi32(c[j], y, z);
        KEEP(y);
    }
    for (int j = 0; j < CHAINS; j++) KEEP(c[j]);
    return 2.0 * CHAINS * 64 * repeats;
}
#else
#define dot8 NULL
#endif

#ifdef __AMX_TILE__
static int amx;

static void tiles(void) { /* eight tiles of 16 rows and 64 bytes */
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t columns[16];
        uint8_t rows[16];
    } c;
    memset(&c, 0, sizeof c);
    c.palette = 1;
    for (int t = 0; t < 8; t++) c.columns[t] = 64, c.rows[t] = 16;
    __asm__ volatile("" : : "r"(&c) : "memory"); /* gcc 12 believes that only eight bytes are read */
    _tile_loadconfig(&c);
    _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
    _tile_zero(4); _tile_zero(5); _tile_zero(6); _tile_zero(7);
}

#define TILE_KERNEL(NAME, OP, DEPTH)                                    \
    static double NAME(void *memory, long bytes, long repeats) {        \
        (void)memory, (void)bytes;                                      \
        tiles();                                                        \
        for (long r = 0; r < repeats; r++) {                            \
            OP(0, 4, 6); OP(1, 4, 7); OP(2, 5, 6); OP(3, 5, 7);         \
            __asm__ volatile("");                                       \
        }                                                               \
        _tile_release();                                                \
        return 2.0 * 4 * 16 * 16 * (DEPTH) * repeats;                   \
    }
TILE_KERNEL(tile16, _tile_dpbf16ps, 32)
TILE_KERNEL(tile8, _tile_dpbssd, 64)
#else
enum { amx = 0 };
#define tile16 NULL
#define tile8 NULL
#endif

/* ---- threads and samples -------------------------------------------------------------------- */

typedef struct {
    Kernel kernel;
    char *memory;
    long bytes, repeats;
    double begun, ended, work;
} Part;

static int threads;
static volatile int waiting, generation;

static void together(void) { /* a barrier that gives way, in case there are fewer cores than threads */
    int seen = generation;
    if (__sync_add_and_fetch(&waiting, 1) == threads) {
        waiting = 0;
        __sync_add_and_fetch(&generation, 1);
    } else
        for (long spins = 0; seen == generation; spins++)
            if (spins > 100000) sched_yield();
}

static void *work(void *argument) {
    Part *part = argument;
    together();
    part->begun = now();
    part->work = part->kernel(part->memory, part->bytes, part->repeats);
    part->ended = now();
    return NULL;
}

static double sample(Part *parts, double *took) { /* from the first begin to the last end */
    pthread_t others[MOST_THREADS];
    double begun = 1e300, ended = 0, total = 0;
    for (int t = 1; t < threads; t++)
        if (pthread_create(&others[t], NULL, work, &parts[t])) exit(3);
    work(&parts[0]);
    for (int t = 1; t < threads; t++) pthread_join(others[t], NULL);
    for (int t = 0; t < threads; t++) {
        if (parts[t].begun < begun) begun = parts[t].begun;
        if (parts[t].ended > ended) ended = parts[t].ended;
        total += parts[t].work;
    }
    *took = ended - begun;
    return total;
}

static char *memory_of(long bytes) { /* kept, so that its pages stay the same from round to round */
    static char *blocks[MOST_THREADS];
    static long sizes[MOST_THREADS];
    for (int b = 0; b < MOST_THREADS; b++) {
        if (blocks[b] && sizes[b] == bytes) return blocks[b];
        if (blocks[b]) continue;
        blocks[b] = aligned_alloc(1 << 21, (bytes + (1 << 21) - 1) >> 21 << 21);
        if (!blocks[b]) exit(3);
        for (long i = 0; i < bytes / 4; i++) ((float *)blocks[b])[i] = 1.0f;
        sizes[b] = bytes;
        return blocks[b];
    }
    exit(3);
}

static double best(Kernel kernel, char *memory, long stride, long bytes, double seconds) {
    Part parts[MOST_THREADS];
    double rate = 0, took, end = now() + seconds;
    long repeats = 1;
    if (!kernel) return 0;
    while (now() < end || !rate) {
        for (int t = 0; t < threads; t++) parts[t] = (Part){kernel, memory + stride * t, bytes, repeats, 0, 0, 0};
        double done = sample(parts, &took);
        if (took < 5e-4)
            repeats *= 2;
        else if (done / took > rate)
            rate = done / took;
    }
    return rate;
}

static double walk(long total, long window, double seconds) {
    static long at; /* goes on where the last round stopped */
    char *memory = memory_of(total);
    Part parts[MOST_THREADS];
    double rate = 0, took, end = now() + seconds;
    long each = window / threads / 512 * 512;
    while (now() < end || !rate) {
        at = at + 2 * window <= total ? at + window : 0;
        for (int t = 0; t < threads; t++) parts[t] = (Part){load, memory + at + each * t, each, 1, 0, 0, 0};
        double done = sample(parts, &took);
        if (done / took > rate) rate = done / took;
    }
    return rate;
}

static double measure(const char *line) {
    long bytes, window;
    double seconds;
    char name[16];
    if (sscanf(line, "load %ld %lf", &bytes, &seconds) == 2) {
        long stride = (bytes + 4095) / 4096 * 4096 + 4096 * 17;
        return best(load, memory_of(stride * threads), stride, bytes, seconds);
    }
    if (sscanf(line, "shared %ld %lf", &bytes, &seconds) == 2) return best(load, memory_of(bytes), 0, bytes, seconds);
    if (sscanf(line, "walk %ld %ld %lf", &bytes, &window, &seconds) == 3) return walk(bytes, window, seconds);
    if (sscanf(line, "%15s %lf", name, &seconds) != 2) return 0;
    struct {
        const char *name;
        Kernel kernel;
    } all[] = {{"fp64", fma64},   {"fp32", fma32},    {"plain64", plain64}, {"plain32", plain32},
               {"dot16", dot16},  {"dot8", dot8},     {"bf16", amx ? tile16 : dot16}, {"int8", amx ? tile8 : dot8}};
    for (unsigned k = 0; k < sizeof all / sizeof *all; k++)
        if (!strcmp(name, all[k].name)) return best(all[k].kernel, NULL, 0, 0, seconds);
    return 0;
}

int main(int count, char **arguments) {
    char line[128];
    threads = count > 1 ? atoi(arguments[1]) : 1;
    if (threads < 1 || threads > MOST_THREADS) return 2;
#ifdef __AMX_TILE__
    amx = !syscall(SYS_arch_prctl, 0x1023, 18); /* ask Linux for tile data */
#endif
    while (fgets(line, sizeof line, stdin)) {
        printf("%.6g\n", measure(line));
        fflush(stdout);
    }
    return 0;
}
