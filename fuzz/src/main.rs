//! `leafd-fuzz TARGET`: with libFuzzer's counters (see `fuzz/rustc`) looks for inputs that break the target, and takes
//! libFuzzer's own arguments; without them runs the files that are named, one after another.
//!
//! `tests/run fuzz` builds and runs it.

use std::process::ExitCode;

use leafd_fuzz::{TARGETS, Target};

fn main() -> ExitCode {
    let mut args = std::env::args();
    let program = args.next().unwrap_or_default();
    let chosen = args.next();
    match TARGETS.iter().find(|target| Some(target.name) == chosen.as_deref()) {
        Some(target) => run(target, program, args.collect()),
        None => {
            for Target { name, about, .. } in &TARGETS {
                println!("{name:14} {about}");
            }
            if chosen.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

#[cfg(not(fuzzing))]
fn run(target: &Target, _program: String, files: Vec<String>) -> ExitCode {
    for file in files {
        match std::fs::read(&file) {
            Ok(input) => {
                println!("{file}");
                (target.run)(&input);
            }
            Err(error) => {
                eprintln!("leafd-fuzz: reading {file} failed: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

#[cfg(fuzzing)]
fn run(target: &'static Target, program: String, rest: Vec<String>) -> ExitCode {
    libfuzzer::run(target, program, rest)
}

/// libFuzzer, as clang's runtime has it.
#[cfg(fuzzing)]
mod libfuzzer {
    use std::ffi::{CString, c_char, c_int};
    use std::process::ExitCode;
    use std::sync::OnceLock;

    use super::Target;

    type Callback = extern "C" fn(*const u8, usize) -> c_int;

    unsafe extern "C" {
        fn LLVMFuzzerRunDriver(
            count: *mut c_int,
            arguments: *mut *mut *mut c_char,
            callback: Callback,
        ) -> c_int;
    }

    static TARGET: OnceLock<&Target> = OnceLock::new();

    extern "C" fn one(bytes: *const u8, length: usize) -> c_int {
        let input = match length {
            0 => &[],
            // SAFETY: libFuzzer passes so many bytes, which stay until this returns.
            _ => unsafe { std::slice::from_raw_parts(bytes, length) },
        };
        if let Some(target) = TARGET.get() {
            (target.run)(input);
        }
        0
    }

    pub(super) fn run(target: &'static Target, program: String, rest: Vec<String>) -> ExitCode {
        let _ = TARGET.set(target);
        // libFuzzer keeps the input of a process that aborts.
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            report(panic);
            std::process::abort();
        }));
        let longest = format!("-max_len={}", target.input_bytes_max);
        let arguments = [program, longest].into_iter().chain(rest);
        let mut arguments: Vec<*mut c_char> = arguments
            .filter_map(|argument| CString::new(argument).ok())
            .map(CString::into_raw)
            .collect();
        let mut count = c_int::try_from(arguments.len()).unwrap_or(c_int::MAX);
        arguments.push(std::ptr::null_mut());
        let mut first = arguments.as_mut_ptr();
        // SAFETY: `count` and `first` are those of a list of C strings that ends with a null pointer, and is never freed.
        let status = unsafe { LLVMFuzzerRunDriver(&raw mut count, &raw mut first, one) };
        ExitCode::from(u8::try_from(status).unwrap_or(1))
    }
}
