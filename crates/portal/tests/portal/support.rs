//! A portal in its own folder, and a client of its REST interface.

use std::hash::{Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::PublicKeyData as _;
use serde_json::{Value, json};
use tempfile::TempDir;

#[path = "../../../media/tests/skip/mod.rs"]
pub(crate) mod skip;

#[path = "postgres_server.rs"]
pub(crate) mod postgres_server;

/// Timeout on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const PASSWORD: &str = "correct horse";

/// A folder with a configuration, in which portals run one after the other.
pub(crate) struct Installation {
    pub(crate) folder: TempDir,
    /// The URL of a PostgreSQL database; `None` for SQLite in the folder.
    pub(crate) database: Option<String>,
    /// Additional environment variables of portals.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// A wrapper program and its first arguments, such as `env`. Empty if the portal is started directly.
    pub(crate) before: Vec<&'static str>,
}

/// A running portal.
pub(crate) struct Portal {
    child: Child,
    /// `http` or `https`.
    pub(crate) scheme: String,
    pub(crate) at: String,
}

/// A user's browser.
pub(crate) struct Person {
    pub(crate) at: String,
    pub(crate) cookie: Option<String>,
    pub(crate) csrf: Option<String>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// The path of the program `openuvr`. Panics if the program was not built.
pub(crate) fn openuvr() -> PathBuf {
    let test = env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("openuvr");
    assert!(
        program.exists(),
        "cargo build -p openuvr-cli builds {}",
        program.display()
    );
    program
}

/// The path of a session program that is an example of this crate.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        program.exists(),
        "cargo build -p openuvr-portal --examples builds {}",
        program.display()
    );
    program
}

impl Installation {
    pub(crate) fn new() -> Installation {
        // The folder is accessible to all users, because some tests run the portal as another user.
        let anyone = fs::Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new()
            .permissions(anyone)
            .tempdir()
            .unwrap();
        let place = Installation {
            folder,
            database: postgres_server::database(),
            environment: Vec::new(),
            before: Vec::new(),
        };
        let program = example("bare_session");
        let config = format!(
            "data = \"data\"\nmetrics_token = \"count me\"\n[limits]\nsessions = 2\ngrace = 5\n\
             [local]\nprogram = [{program:?}]\nplaces = 3\nqueue = 1\n"
        );
        place.write("portal.toml", &config);
        place.write(
            "applications.toml",
            r#"
            [[application]]
            name = "bare"
            title = "Bare"
            description = "Shows nothing"
            picture = "bare.png"
            command = ["true"]

            [[application]]
            name = "save"
            command = ["true"]
            saves = true

            [[application]]
            name = "adas"
            command = ["true"]
            users = ["ada"]
            "#,
        );
        // The portal detects the media type from the first bytes.
        fs::write(place.folder.path().join("bare.png"), b"\x89PNG\r\n\x1a\n").unwrap();
        place
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let portal = env!("CARGO_BIN_EXE_openuvr-portal");
        let mut line = self.before.iter().chain([&portal]);
        let mut command = Command::new(line.next().unwrap());
        command.args(line).arg("portal").args(words);
        command
            .arg("--config")
            .arg(self.folder.path().join("portal.toml"));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(url) = &self.database {
            command.env("OPENUVR_PORTAL_DATABASE", url);
        }
        command
    }

    /// Runs the program with these arguments until it ends.
    pub(crate) fn run(&self, words: &[&str], input: &str) -> Output {
        let mut child = self
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    }

    pub(crate) fn add_user(&self, name: &str, words: &[&str]) {
        let words = [&["user", "add", name, "--password-stdin"], words].concat();
        let added = self.run(&words, PASSWORD);
        assert!(
            added.status.success(),
            "{}",
            String::from_utf8_lossy(&added.stderr)
        );
    }

    pub(crate) fn start(&self) -> Portal {
        self.start_at("127.0.0.1:0")
    }

    /// Creates a self-signed certificate for the portal. Returns the lines for the beginning of the configuration.
    pub(crate) fn secure(&self) -> &'static str {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        self.write("cert.pem", &made.cert.pem());
        self.write("key.pem", &made.signing_key.serialize_pem());
        // A browser that is started with this hash accepts only this certificate.
        let public = made.signing_key.subject_public_key_info();
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &public);
        self.write("spki", &BASE64_STANDARD.encode(hash));
        "certificate = \"cert.pem\"\nkey = \"key.pem\"\n"
    }

    pub(crate) fn start_at(&self, address: &str) -> Portal {
        let mut child = self
            .command(&["--listen", address])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(self.folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let said = line.trim().strip_prefix("The portal is at ");
        let at = said.and_then(|url| url.split_once("://"));
        let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let (scheme, at) = at.unwrap_or_else(|| panic!("unexpected output {line:?}: {}", log()));
        Portal {
            child,
            scheme: scheme.to_owned(),
            at: at.to_owned(),
        }
    }

    /// Running session processes that this installation has started.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let folder = self.folder.path().join("data/sessions");
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let ours = |pid: &i32| {
            fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|of| of.starts_with(&folder))
        };
        pids.filter(ours).collect()
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        for pid in self.processes() {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Portal {
    pub(crate) fn anonymous(&self) -> Person {
        Person {
            at: self.at.clone(),
            cookie: None,
            csrf: None,
        }
    }

    pub(crate) fn log_in(&self, name: &str) -> Person {
        self.log_in_with(&json!({"name": name, "password": PASSWORD}))
    }

    /// Logs in with this name and password.
    pub(crate) fn log_in_with(&self, login: &Value) -> Person {
        let mut person = self.anonymous();
        let answer = person.request("POST", "/api/login", Some(login)).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let cookie = answer.header("set-cookie").unwrap();
        person.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        person.csrf = Some(answer.json()["csrf"].as_str().unwrap().to_owned());
        person
    }

    /// The portal's process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the portal at once, without a shutdown.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Portal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Person {
    /// The same user's browser, at another portal or a restarted one.
    pub(crate) fn at(&self, portal: &Portal) -> Person {
        Person {
            at: portal.at.clone(),
            cookie: self.cookie.clone(),
            csrf: self.csrf.clone(),
        }
    }

    /// Sends a request. Returns `None` if there is no response.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
        self.request_with(method, path, body, &[])
    }

    pub(crate) fn request_with(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Option<Answer> {
        let mut stream = TcpStream::connect(&self.at).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n",
            self.at
        );
        if let Some(cookie) = &self.cookie {
            head += &format!("cookie: {cookie}\r\n");
        }
        if let Some(csrf) = &self.csrf {
            head += &format!("x-openuvr-csrf: {csrf}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let body = body.map(Value::to_string);
        if let Some(body) = &body {
            head += &format!(
                "content-type: application/json\r\ncontent-length: {}\r\n",
                body.len()
            );
        }
        let request = head + "\r\n" + body.as_deref().unwrap_or_default();
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = BufReader::new(stream);
        let mut line = String::new();
        answer.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            answer.read_line(&mut line).ok()?;
            match line.trim().split_once(": ") {
                Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
                None => break,
            }
        }
        let mut body = Vec::new();
        // An endless response is not read. Closing the connection ends it.
        let endless = headers
            .iter()
            .any(|(_, value)| value.starts_with("text/event-stream"));
        if !endless {
            answer.read_to_end(&mut body).ok()?;
        }
        Some(Answer {
            status,
            headers,
            body,
        })
    }

    pub(crate) fn status(&self, method: &str, path: &str, body: Option<&Value>) -> u16 {
        self.request(method, path, body).unwrap().status
    }

    pub(crate) fn start_session(&self, id: &str, application: &str) -> Answer {
        let body = json!({"application": application});
        let path = format!("/api/sessions/{id}");
        self.request("PUT", &path, Some(&body)).unwrap()
    }

    /// Waits until the session is in this state, and returns it.
    pub(crate) fn until(&self, id: &str, state: &str) -> Value {
        let path = format!("/api/sessions/{id}");
        let mut seen = Value::Null;
        wait(&format!("{id} is {state}"), || {
            let answer = self.request("GET", &path, None).unwrap();
            seen = answer.json();
            seen["state"] == state
        });
        seen
    }
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(of, _)| of == name);
        found.map(|(_, value)| value.as_str())
    }
}

pub(crate) fn wait(what: &str, mut until: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !until() {
        assert!(Instant::now() < end, "timeout: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A UUID derived from this number, the process and the test's thread. Ids must be unique across tests, because a
/// launcher kills remaining processes of a session anywhere on the machine.
pub(crate) fn id(number: u32) -> String {
    let mut hash = std::hash::DefaultHasher::new();
    (std::process::id(), thread::current().id()).hash(&mut hash);
    let test = hash.finish() & 0xffff_ffff;
    format!("{test:08x}-0000-4000-8000-{number:012x}")
}
