//! The `tenure` command. The library beside it does everything.

fn main() -> std::process::ExitCode {
    tenure_cli::main()
}
