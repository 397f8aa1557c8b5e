//! A minimal session program for the launchers' tests. It prints its endpoint, displays nothing, and ends on SIGTERM.
//!
//! On each TCP connection, it sends a line that contains its session's id, then executes the line that it receives:
//! `exit CODE`, `log TEXT` (writes a line to standard error), `create PATH` (creates a file, and writes its path and the
//! result to standard error), or an empty line (does nothing).

#![expect(clippy::disallowed_methods, reason = "it is a separate program")]

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|of| of == word);
    let session = std::env::var("OPENUVR_SESSION").unwrap_or_default();
    // An engine that assigns ports sets this variable. With port 0, the system chooses a port.
    let port = std::env::var("PORT")
        .ok()
        .and_then(|port| port.parse().ok());
    let listener = TcpListener::bind(("0.0.0.0", port.unwrap_or(0)))?;
    if has("--application") {
        // This stands for an application in its own process group.
        let mut application = Command::new("sleep");
        application.arg("600").stdin(Stdio::null());
        application.process_group(0).spawn()?;
    }
    if has("--nonsense") {
        writeln!(io::stdout(), "it runs")?;
    } else if !has("--mute") {
        let port = listener.local_addr()?.port();
        let line = format!("{{\"web\":\"https://127.0.0.1:{port}\",\"fingerprint\":\"\"}}");
        writeln!(io::stdout(), "{line}")?;
    }
    for stream in listener.incoming() {
        let mut stream = stream?;
        let _ = writeln!(stream, "{session}");
        let mut line = String::new();
        let _ = BufReader::new(stream).read_line(&mut line);
        if let Some(code) = line.trim().strip_prefix("exit ") {
            std::process::exit(code.parse().unwrap_or(1));
        }
        if let Some(text) = line.trim().strip_prefix("log ") {
            writeln!(io::stderr(), "{text}")?;
        }
        if let Some(path) = line.trim().strip_prefix("create ") {
            let result = match File::create_new(path) {
                Ok(_) => "created".to_owned(),
                Err(why) => why.to_string(),
            };
            writeln!(io::stderr(), "{path}: {result}")?;
        }
    }
    Ok(())
}
