// Kernels that measure the caches and the vector units of a GPU. They are compiled at run time, without any header.
//
// Each kernel repeats its work inside one launch. Instructions are written as volatile assembly, pointers move by a
// zero that only the host knows, and a store that never happens depends on the results: so the compiler can neither
// hoist, merge nor drop the work that is counted.

typedef unsigned int u32;
typedef unsigned long long u64;

// ---- memory: each block reads its own window again and again ------------------------------------------------------

#define LOADER(NAME, OP)                                                                                               \
    __device__ __forceinline__ float4 NAME(const float4 *from) {                                                       \
        float4 v;                                                                                                      \
        asm volatile(OP " {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));          \
        return v;                                                                                                      \
    }

LOADER(load_near, "ld.global.v4.f32")
LOADER(load_far, "ld.global.cg.v4.f32") // leaves L1 out

// `vectors` float4 per block, a multiple of four times the threads of a block.
#define WINDOW(NAME, LOAD)                                                                                             \
    extern "C" __global__ void NAME(const float4 *data, u32 vectors, u32 passes, u32 zero, float *never) {             \
        const u32 step = blockDim.x;                                                                                   \
        const float4 *from = data + (u64)blockIdx.x * vectors + threadIdx.x;                                           \
        float s = 0, t = 0, u = 0, v = 0;                                                                              \
        _Pragma("unroll 1") for (u32 pass = 0; pass < passes; ++pass) {                                                \
            _Pragma("unroll 1") for (u32 i = 0; i < vectors; i += 4 * step) {                                          \
                const float4 a = LOAD(from + i);                                                                       \
                const float4 b = LOAD(from + i + step);                                                                \
                const float4 c = LOAD(from + i + 2 * step);                                                            \
                const float4 d = LOAD(from + i + 3 * step);                                                            \
                s += (a.x + a.y) + (a.z + a.w);                                                                        \
                t += (b.x + b.y) + (b.z + b.w);                                                                        \
                u += (c.x + c.y) + (c.z + c.w);                                                                        \
                v += (d.x + d.y) + (d.z + d.w);                                                                        \
            }                                                                                                          \
            from += zero;                                                                                              \
        }                                                                                                              \
        if (s + t + u + v == -1.25e30f) *never = s;                                                                    \
    }

WINDOW(window_near, load_near)
WINDOW(window_far, load_far)

// 32 KiB of shared memory, read by 1024 threads two float4 at a time.
extern "C" __global__ void shared_window(u32 passes, u32 zero, float *never) {
    __shared__ float4 data[2048];
    for (u32 i = threadIdx.x; i < 2048; i += blockDim.x) data[i] = make_float4(i, 1.0f, 2.0f, 3.0f);
    __syncthreads();
    u64 start;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(start) : "l"((u64)(data + threadIdx.x)));
    u32 from = (u32)start;
    float s = 0, t = 0;
#pragma unroll 4
    for (u32 pass = 0; pass < passes; ++pass) {
        float4 a, b;
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(a.x), "=f"(a.y), "=f"(a.z), "=f"(a.w) : "r"(from));
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4+16384];"
                     : "=f"(b.x), "=f"(b.y), "=f"(b.z), "=f"(b.w) : "r"(from));
        s += (a.x + a.y) + (a.z + a.w);
        t += (b.x + b.y) + (b.z + b.w);
        from += zero;
    }
    if (s + t == -1.25e30f) *never = s;
}

// ---- vector units: 8 independent chains of 16 steps per thread and round ---------------------------------------------

__device__ __forceinline__ u64 cycles() {
    u64 now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now));
    return now;
}

__device__ __forceinline__ u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__device__ __forceinline__ u64 scattered(u32 chain) {
    return ((u64)(threadIdx.x + 1) * 8 + chain) * 0x9E3779B97F4A7C15ull;
}

__device__ __forceinline__ void from_bits(u64 bits, float &x) { x = __int_as_float((int)bits); }
__device__ __forceinline__ void from_bits(u64 bits, double &x) { x = __longlong_as_double((long long)bits); }
__device__ __forceinline__ void from_bits(u64 bits, u32 &x) { x = (u32)bits; }
__device__ __forceinline__ void from_bits(u64 bits, u64 &x) { x = bits; }
__device__ __forceinline__ u32 any_bits(float x) { return (u32)__float_as_int(x); }
__device__ __forceinline__ u32 any_bits(double x) { return (u32)__double2hiint(x); }
__device__ __forceinline__ u32 any_bits(u32 x) { return x; }
__device__ __forceinline__ u32 any_bits(u64 x) { return (u32)x; }

#define ALL8(STEP) STEP(x0) STEP(x1) STEP(x2) STEP(x3) STEP(x4) STEP(x5) STEP(x6) STEP(x7)
#define TIMES4(WORK) WORK WORK WORK WORK
#define TIMES16(WORK) TIMES4(TIMES4(WORK))

// Starts from `start` with its `loose` bits scattered; x -> x * factor + term. The first thread notes cycles and
// nanoseconds, from which the clock of its multiprocessor follows.
#define CHAINS(NAME, TYPE, STEP)                                                                                       \
    extern "C" __global__ void NAME(u64 start, u64 loose, u64 factor, u64 term, u32 rounds, u32 *never, u64 *clock) {  \
        TYPE f, c, x0, x1, x2, x3, x4, x5, x6, x7;                                                                     \
        from_bits(factor, f), from_bits(term, c);                                                                      \
        from_bits(start ^ (scattered(0) & loose), x0), from_bits(start ^ (scattered(1) & loose), x1);                  \
        from_bits(start ^ (scattered(2) & loose), x2), from_bits(start ^ (scattered(3) & loose), x3);                  \
        from_bits(start ^ (scattered(4) & loose), x4), from_bits(start ^ (scattered(5) & loose), x5);                  \
        from_bits(start ^ (scattered(6) & loose), x6), from_bits(start ^ (scattered(7) & loose), x7);                  \
        const u64 first_cycle = cycles(), first_nanosecond = nanoseconds();                                            \
        _Pragma("unroll 1") for (u32 round = 0; round < rounds; ++round) { TIMES16(ALL8(STEP)) }                       \
        const u64 took = cycles() - first_cycle, seconds = nanoseconds() - first_nanosecond;                           \
        const u32 mixed = any_bits(x0) ^ any_bits(x1) ^ any_bits(x2) ^ any_bits(x3) ^ any_bits(x4) ^ any_bits(x5) ^    \
                          any_bits(x6) ^ any_bits(x7);                                                                 \
        if (rounds == 0xFFFFFFFFu) never[threadIdx.x] = mixed;                                                         \
        if (blockIdx.x == 0 && threadIdx.x == 0) clock[0] = took, clock[1] = seconds;                                  \
    }

#define FMA_F64(X) asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(X) : "d"(f), "d"(c));
#define FMA_F32(X) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(X) : "f"(f), "f"(c));
#define FMA_F32X2(X) asm volatile("fma.rn.f32x2 %0, %0, %1, %2;" : "+l"(X) : "l"(f), "l"(c));
#define FMA_F16X2(X) asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(X) : "r"(f), "r"(c));
#define FMA_BF16X2(X) asm volatile("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(X) : "r"(f), "r"(c));
#define MAD_S32(X) asm volatile("mad.lo.s32 %0, %0, %1, %2;" : "+r"(X) : "r"(f), "r"(c));
#define DP4A(X) asm volatile("dp4a.s32.s32 %0, %0, %1, %2;" : "+r"(X) : "r"(f), "r"(c));

// With a rounding mode written out, a product and a sum are never joined to one instruction.
#define TWO_F64(X) asm volatile("mul.rn.f64 %0, %0, %1; add.rn.f64 %0, %0, %2;" : "+d"(X) : "d"(f), "d"(c));
#define TWO_F32(X) asm volatile("mul.rn.f32 %0, %0, %1; add.rn.f32 %0, %0, %2;" : "+f"(X) : "f"(f), "f"(c));
#define TWO_F16X2(X) asm volatile("mul.rn.f16x2 %0, %0, %1; add.rn.f16x2 %0, %0, %2;" : "+r"(X) : "r"(f), "r"(c));
#define TWO_BF16X2(X) asm volatile("mul.rn.bf16x2 %0, %0, %1; add.rn.bf16x2 %0, %0, %2;" : "+r"(X) : "r"(f), "r"(c));

CHAINS(fma_f64, double, FMA_F64)
CHAINS(fma_f32, float, FMA_F32)
CHAINS(fma_f16x2, u32, FMA_F16X2)
CHAINS(mad_s32, u32, MAD_S32)
CHAINS(dp4a_s32, u32, DP4A)
CHAINS(two_f64, double, TWO_F64)
CHAINS(two_f32, float, TWO_F32)
CHAINS(two_f16x2, u32, TWO_F16X2)
#if __CUDA_ARCH__ >= 800
CHAINS(fma_bf16x2, u32, FMA_BF16X2)
#endif
#if __CUDA_ARCH__ >= 900
CHAINS(two_bf16x2, u32, TWO_BF16X2)
#endif
#if __CUDA_ARCH__ >= 1000
CHAINS(fma_f32x2, u64, FMA_F32X2)
#endif
