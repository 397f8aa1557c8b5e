//! The program `openuvr`.
#![deny(unsafe_code)]

fn main() -> std::process::ExitCode {
    openuvr_cli::main()
}
