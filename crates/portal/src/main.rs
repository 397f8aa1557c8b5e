//! The program `openuvr-portal`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    openuvr_portal::main()
}
