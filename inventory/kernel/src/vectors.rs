//! Arithmetic on vectors of each width that a processor has. It stays arithmetic on vectors in a program that is optimised for size, where
//! the compiler makes no vectors of loops.
#![allow(unsafe_code)]

/// Numbers of each kind that a piece of work computes at once, whatever the width: several registers of the widest.
pub const LANES: usize = 64;

/// The vectors of one width. A value exists only where the processor has them.
pub trait Vectors: Copy {
    /// A vector of `u32`. Arithmetic wraps.
    type Words: Copy;
    /// A vector of `f64`.
    type Floats: Copy;

    /// Takes its lanes from the front of these; zeros where there are fewer.
    fn words(self, lanes: &[u32]) -> Self::Words;
    fn word_lanes(self, vector: Self::Words) -> impl Iterator<Item = u32>;
    fn all_words(self, word: u32) -> Self::Words;
    fn multiply_words(self, one: Self::Words, other: Self::Words) -> Self::Words;
    fn add_words(self, one: Self::Words, other: Self::Words) -> Self::Words;
    /// `word ^ (word >> 15)`.
    fn fold_words(self, vector: Self::Words) -> Self::Words;

    /// Takes its lanes from the front of these; zeros where there are fewer.
    fn floats(self, lanes: &[f64]) -> Self::Floats;
    fn float_lanes(self, vector: Self::Floats) -> impl Iterator<Item = f64>;
    fn all_floats(self, float: f64) -> Self::Floats;
    fn multiply(self, one: Self::Floats, other: Self::Floats) -> Self::Floats;
    fn add(self, one: Self::Floats, other: Self::Floats) -> Self::Floats;
    fn subtract(self, one: Self::Floats, other: Self::Floats) -> Self::Floats;
    fn divide(self, one: Self::Floats, other: Self::Floats) -> Self::Floats;
    fn square_root(self, vector: Self::Floats) -> Self::Floats;
    /// `factor * other + addend`, rounded once.
    fn multiply_add(self, factor: Self::Floats, other: Self::Floats, addend: Self::Floats) -> Self::Floats;
}

/// Work that is the same on vectors of every width. `run` is to be inlined always.
pub trait Work {
    type Output;

    /// `WORDS` and `FLOATS` vectors have [`LANES`] numbers.
    fn run<V: Vectors, const WORDS: usize, const FLOATS: usize>(self, vectors: V) -> Self::Output;
}

macro_rules! vectors {
    ($(#[$about:meta])* $name:ident: $words:ty, $floats:ty; words $load_words:ident $store_words:ident $all_words:ident $multiply_words:ident
        $add_words:ident $xor:ident $shift:ident; floats $load:ident $store:ident $all:ident $multiply:ident $add:ident $subtract:ident
        $divide:ident $root:ident; fused $fused:ident) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name(());

        impl $name {
            /// # Safety
            /// The processor has these vectors.
            pub(crate) unsafe fn new() -> Self {
                Self(())
            }
        }

        // SAFETY, of all below: a value exists only where the processor has the instructions; pointers are those of arrays that are
        // as long as a vector.
        impl Vectors for $name {
            type Words = $words;
            type Floats = $floats;

            #[inline(always)]
            fn words(self, lanes: &[u32]) -> $words {
                let mut all = [0; size_of::<$words>() / size_of::<u32>()];
                all.iter_mut().zip(lanes).for_each(|(place, lane)| *place = *lane);
                unsafe { $load_words(all.as_ptr().cast()) }
            }

            #[inline(always)]
            fn word_lanes(self, vector: $words) -> impl Iterator<Item = u32> {
                let mut all = [0_u32; size_of::<$words>() / size_of::<u32>()];
                unsafe { $store_words(all.as_mut_ptr().cast(), vector) };
                all.into_iter()
            }

            #[inline(always)]
            fn all_words(self, word: u32) -> $words {
                unsafe { $all_words(word.cast_signed()) }
            }

            #[inline(always)]
            fn multiply_words(self, one: $words, other: $words) -> $words {
                unsafe { $multiply_words(one, other) }
            }

            #[inline(always)]
            fn add_words(self, one: $words, other: $words) -> $words {
                unsafe { $add_words(one, other) }
            }

            #[inline(always)]
            fn fold_words(self, vector: $words) -> $words {
                unsafe { $xor(vector, $shift::<15>(vector)) }
            }

            #[inline(always)]
            fn floats(self, lanes: &[f64]) -> $floats {
                let mut all = [0.0; size_of::<$floats>() / size_of::<f64>()];
                all.iter_mut().zip(lanes).for_each(|(place, lane)| *place = *lane);
                unsafe { $load(all.as_ptr()) }
            }

            #[inline(always)]
            fn float_lanes(self, vector: $floats) -> impl Iterator<Item = f64> {
                let mut all = [0.0; size_of::<$floats>() / size_of::<f64>()];
                unsafe { $store(all.as_mut_ptr(), vector) };
                all.into_iter()
            }

            #[inline(always)]
            fn all_floats(self, float: f64) -> $floats {
                unsafe { $all(float) }
            }

            #[inline(always)]
            fn multiply(self, one: $floats, other: $floats) -> $floats {
                unsafe { $multiply(one, other) }
            }

            #[inline(always)]
            fn add(self, one: $floats, other: $floats) -> $floats {
                unsafe { $add(one, other) }
            }

            #[inline(always)]
            fn subtract(self, one: $floats, other: $floats) -> $floats {
                unsafe { $subtract(one, other) }
            }

            #[inline(always)]
            fn divide(self, one: $floats, other: $floats) -> $floats {
                unsafe { $divide(one, other) }
            }

            #[inline(always)]
            fn square_root(self, vector: $floats) -> $floats {
                unsafe { $root(vector) }
            }

            #[inline(always)]
            fn multiply_add(self, factor: $floats, other: $floats, addend: $floats) -> $floats {
                unsafe { $fused(factor, other, addend) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod wide {
    use super::Vectors;
    use std::arch::x86_64::*;

    vectors! {
        /// AVX2 with fused multiplication and addition.
        Bits256: __m256i, __m256d;
        words _mm256_loadu_si256 _mm256_storeu_si256 _mm256_set1_epi32 _mm256_mullo_epi32 _mm256_add_epi32 _mm256_xor_si256 _mm256_srli_epi32;
        floats _mm256_loadu_pd _mm256_storeu_pd _mm256_set1_pd _mm256_mul_pd _mm256_add_pd _mm256_sub_pd _mm256_div_pd _mm256_sqrt_pd;
        fused _mm256_fmadd_pd
    }

    vectors! {
        /// AVX-512.
        Bits512: __m512i, __m512d;
        words _mm512_loadu_si512 _mm512_storeu_si512 _mm512_set1_epi32 _mm512_mullo_epi32 _mm512_add_epi32 _mm512_xor_si512 _mm512_srli_epi32;
        floats _mm512_loadu_pd _mm512_storeu_pd _mm512_set1_pd _mm512_mul_pd _mm512_add_pd _mm512_sub_pd _mm512_div_pd _mm512_sqrt_pd;
        fused _mm512_fmadd_pd
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) mod base {
    use super::Vectors;
    use std::arch::aarch64::*;

    #[inline(always)]
    unsafe fn all_words(word: i32) -> uint32x4_t {
        unsafe { vdupq_n_u32(word.cast_unsigned()) }
    }

    #[inline(always)]
    unsafe fn fused(factor: float64x2_t, other: float64x2_t, addend: float64x2_t) -> float64x2_t {
        unsafe { vfmaq_f64(addend, factor, other) }
    }

    vectors! {
        /// Advanced SIMD, which every such processor has.
        Base: uint32x4_t, float64x2_t;
        words vld1q_u32 vst1q_u32 all_words vmulq_u32 vaddq_u32 veorq_u32 vshrq_n_u32;
        floats vld1q_f64 vst1q_f64 vdupq_n_f64 vmulq_f64 vaddq_f64 vsubq_f64 vdivq_f64 vsqrtq_f64;
        fused fused
    }
}

#[cfg(not(target_arch = "aarch64"))]
pub(crate) mod base {
    use super::Vectors;

    /// One number at a time.
    #[derive(Clone, Copy)]
    pub(crate) struct Base(());

    impl Base {
        /// # Safety
        /// None is needed: as for the others.
        pub(crate) unsafe fn new() -> Self {
            Self(())
        }
    }

    impl Vectors for Base {
        type Words = u32;
        type Floats = f64;

        #[inline(always)]
        fn words(self, lanes: &[u32]) -> u32 {
            lanes.first().copied().unwrap_or_default()
        }

        #[inline(always)]
        fn word_lanes(self, vector: u32) -> impl Iterator<Item = u32> {
            std::iter::once(vector)
        }

        #[inline(always)]
        fn all_words(self, word: u32) -> u32 {
            word
        }

        #[inline(always)]
        fn multiply_words(self, one: u32, other: u32) -> u32 {
            one.wrapping_mul(other)
        }

        #[inline(always)]
        fn add_words(self, one: u32, other: u32) -> u32 {
            one.wrapping_add(other)
        }

        #[inline(always)]
        fn fold_words(self, vector: u32) -> u32 {
            vector ^ (vector >> 15)
        }

        #[inline(always)]
        fn floats(self, lanes: &[f64]) -> f64 {
            lanes.first().copied().unwrap_or_default()
        }

        #[inline(always)]
        fn float_lanes(self, vector: f64) -> impl Iterator<Item = f64> {
            std::iter::once(vector)
        }

        #[inline(always)]
        fn all_floats(self, float: f64) -> f64 {
            float
        }

        #[inline(always)]
        fn multiply(self, one: f64, other: f64) -> f64 {
            one * other
        }

        #[inline(always)]
        fn add(self, one: f64, other: f64) -> f64 {
            one + other
        }

        #[inline(always)]
        fn subtract(self, one: f64, other: f64) -> f64 {
            one - other
        }

        #[inline(always)]
        fn divide(self, one: f64, other: f64) -> f64 {
            one / other
        }

        #[inline(always)]
        fn square_root(self, vector: f64) -> f64 {
            vector.sqrt()
        }

        #[inline(always)]
        fn multiply_add(self, factor: f64, other: f64, addend: f64) -> f64 {
            factor.mul_add(other, addend)
        }
    }
}
