//! The program `openuvr`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    openuvr_cli::main()
}
