//! A real OpenID Connect provider, and a minimal browser of a user who logs in there.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::support::{Answer, Installation, Person};

/// Timeout for a response of the provider. It allows for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

const SECRET: &str = "the portal's secret";

/// A running provider, and the address at which the portal must listen.
pub(crate) struct Provider {
    child: Child,
    // Kept open, because the provider fails if it writes to a closed pipe.
    _said: BufReader<ChildStdout>,
    pub(crate) issuer: String,
    pub(crate) portal: String,
}

impl Provider {
    /// Starts a provider and adds it to the configuration of `place`. `more` contains additional lines for the table.
    pub(crate) fn start(place: &Installation, more: &str) -> Provider {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/provider");
        assert!(
            folder.join("node_modules").exists(),
            "./dev test-portal fetches the provider; or npm ci in {}",
            folder.display()
        );
        // Finds a free port. The portal binds it later.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let portal = free.local_addr().unwrap().to_string();
        drop(free);
        let mut child = Command::new("node")
            .arg(folder.join("provider.js"))
            .args([&format!("http://{portal}/api/oidc/callback"), SECRET])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut issuer = String::new();
        said.read_line(&mut issuer).unwrap();
        let issuer = issuer.trim().to_owned();
        assert!(
            issuer.starts_with("http://"),
            "unexpected output {issuer:?}"
        );
        place.write("secret", &format!("{SECRET}\n"));
        let config = std::fs::read_to_string(place.path("portal.toml")).unwrap();
        let config = config.split("[oidc]").next().unwrap();
        place.write(
            "portal.toml",
            &format!(
                "{config}[oidc]\nissuer = {issuer:?}\nclient_id = \"portal\"\nclient_secret_file = \"secret\"\n\
                 address = \"http://{portal}\"\ntitle = \"Example\"\n{more}\n"
            ),
        );
        Provider {
            child,
            _said: said,
            issuer,
            portal,
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The browser of a user at the provider.
#[derive(Default)]
pub(crate) struct Visitor {
    cookies: Vec<(String, String)>,
}

impl Visitor {
    /// Sends a request to the provider. Returns the URL to which the response redirects.
    fn go(&mut self, method: &str, url: &str, form: &str) -> String {
        let (authority, path) = url
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        let cookies: Vec<String> = (self.cookies.iter())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let request = format!(
            "{method} /{path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\ncookie: {}\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
            cookies.join("; "),
            form.len()
        );
        let mut stream = TcpStream::connect(authority).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let head = text.split("\r\n\r\n").next().unwrap();
        let mut to = None;
        for line in head.lines() {
            let Some((name, value)) = line.split_once(": ") else {
                continue;
            };
            match name.to_lowercase().as_str() {
                "location" => to = Some(value.to_owned()),
                "set-cookie" => {
                    let (name, value) = value.split(';').next().unwrap().split_once('=').unwrap();
                    self.cookies.retain(|(of, _)| of != name);
                    if !value.is_empty() {
                        self.cookies.push((name.to_owned(), value.to_owned()));
                    }
                }
                _ => {}
            }
        }
        let to = to.unwrap_or_else(|| panic!("{url} does not redirect: {text}"));
        match to.starts_with('/') {
            true => format!("http://{authority}{to}"),
            false => to,
        }
    }

    /// Logs in with this name and gives consent. Returns the provider's redirect to the portal.
    pub(crate) fn log_in(&mut self, provider: &Provider, start_log_in: &str, name: &str) -> String {
        let mut at = start_log_in.to_owned();
        let mut forms = [
            format!("prompt=login&login={name}&password=x"),
            "prompt=consent".to_owned(),
        ]
        .into_iter();
        for _ in 0..12 {
            if !at.starts_with(&provider.issuer) {
                return at;
            }
            at = match at.contains("/interaction/") {
                true => self.go("POST", &at, &forms.next().unwrap()),
                false => self.go("GET", &at, ""),
            };
        }
        panic!("redirect loop of the provider: {at}");
    }
}

/// Starts a log-in. Returns the provider's URL, and the browser with the cookie that is bound to the log-in.
pub(crate) fn start_log_in(anonymous: Person) -> (String, Person) {
    let answer = anonymous.request("POST", "/api/oidc/login", None).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let url = answer.json()["url"].as_str().unwrap().to_owned();
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"),
        "{cookie}"
    );
    let mut person = anonymous;
    person.cookie = Some(cookie.split(';').next().unwrap().to_owned());
    (url, person)
}

/// Follows the provider's redirect to this address of the portal. Returns the portal's response.
pub(crate) fn come_back(person: &Person, address: &str) -> Answer {
    let path = address.strip_prefix(&format!("http://{}", person.at));
    let path = path.unwrap_or_else(|| panic!("{address} is not at the portal"));
    let answer = person.request("GET", path, None).unwrap();
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer
}

/// Performs a complete log-in. Returns the logged-in user, or the page's URL with the reason for the failure.
pub(crate) fn log_in(provider: &Provider, anonymous: Person, name: &str) -> Result<Person, String> {
    let (url, mut person) = start_log_in(anonymous);
    let back = Visitor::default().log_in(provider, &url, name);
    let answer = come_back(&person, &back);
    let to = answer.header("location").unwrap();
    if to != "/" {
        return Err(to.to_owned());
    }
    let cookies = answer
        .headers
        .iter()
        .filter(|(name, _)| name == "set-cookie");
    let mut cookie = cookies.map(|(_, value)| value.split(';').next().unwrap());
    let cookie = cookie.rfind(|of| of.starts_with("openuvr-portal="));
    person.cookie = Some(cookie.unwrap().to_owned());
    let me = person.request("GET", "/api/me", None).unwrap().json();
    person.csrf = Some(me["csrf"].as_str().unwrap().to_owned());
    Ok(person)
}
