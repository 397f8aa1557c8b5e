//! A malicious replacement of the session program, for tests of the portal's page. Its responses to the portal are
//! attacks on browsers that use the portal. It displays nothing.
//!
//! The program appends the head of each request of the portal, except POST requests, to the file `asked` in its folder.
//! The file `does` in this folder specifies how the program answers these requests: `echo` accepts the WebSocket and
//! echoes its input, `flood` accepts it and sends endlessly, `page` answers with its own page, and `silent` does not
//! answer.

#![expect(
    clippy::disallowed_methods,
    reason = "it is a separate program that prints one line"
)]

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

/// Headers that must never reach a browser.
const HEADERS: &str = "Set-Cookie: openuvr-portal=0; Path=/\r\nSet-Cookie: __Host-openuvr-portal=0; Path=/; Secure\r\n\
     Access-Control-Allow-Origin: *\r\nClear-Site-Data: \"*\"\r\nLocation: https://evil.example/\r\nX-Evil: 1\r\n";

/// The program's folder. It is removed if `main` returns, but not if a signal kills the program.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn main() -> io::Result<()> {
    let session = std::env::var("OPENUVR_SESSION").unwrap_or_default();
    let name = format!("ouvr-{}", session.replace('-', ""));
    let folder = Folder(std::env::temp_dir().join(name));
    DirBuilder::new().mode(0o700).create(&folder.0)?;
    let socket = folder.0.join("portal");
    let listener = UnixListener::bind(&socket)?;
    let line = format!(
        "{{\"web\":\"unix:{}\",\"fingerprint\":\"\"}}",
        socket.display()
    );
    writeln!(io::stdout(), "{line}")?;
    for stream in listener.incoming() {
        let (stream, folder) = (stream?, folder.0.clone());
        thread::spawn(move || answer(stream, &folder));
    }
    Ok(())
}

fn answer(mut stream: UnixStream, folder: &Path) -> io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    if head.starts_with(b"POST ") {
        return stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    }
    let mut asked = OpenOptions::new()
        .append(true)
        .create(true)
        .open(folder.join("asked"))?;
    asked.write_all(&head)?;
    let takes =
        format!("HTTP/1.1 101 Mine\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{HEADERS}\r\n");
    let does = fs::read_to_string(folder.join("does")).unwrap_or_default();
    match does.trim() {
        "echo" => {
            stream.write_all(takes.as_bytes())?;
            let mut back = stream.try_clone()?;
            io::copy(&mut stream, &mut back).map(drop)
        }
        "flood" => {
            stream.write_all(takes.as_bytes())?;
            loop {
                stream.write_all(&[b'x'; 4096])?;
            }
        }
        "page" => {
            let page = "<script>parent.evil()</script>";
            let length = page.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\ncontent-length: {length}\r\n{HEADERS}\r\n{page}"
            );
            stream.write_all(answer.as_bytes())
        }
        _ => loop {
            thread::park();
        },
    }
}
