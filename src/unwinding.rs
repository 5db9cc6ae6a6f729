//! What std would walk its stack with. A release has no tables for unwinding (`no-unwinding.ld`), and a panic ends it: no frame is found,
//! and neither the library that looks for them nor what names them need be in the program.
#![allow(unsafe_code)] // the names are the C library's

use std::{ffi::c_int, process};

/// `_URC_END_OF_STACK`.
const END_OF_STACK: c_int = 5;

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace() -> c_int {
    END_OF_STACK
}

/// What is asked for a frame, or when a panic unwinds.
macro_rules! never_called {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> ! {
                process::abort()
            }
        )*
    };
}

never_called! {
    _Unwind_FindEnclosingFunction
    _Unwind_GetCFA
    _Unwind_GetDataRelBase
    _Unwind_GetIP
    _Unwind_GetIPInfo
    _Unwind_GetLanguageSpecificData
    _Unwind_GetRegionStart
    _Unwind_GetTextRelBase
    _Unwind_Resume
    _Unwind_SetGR
    _Unwind_SetIP
}
