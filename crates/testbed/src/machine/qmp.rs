//! QEMU's machine protocol: commands and answers as lines of JSON.
//!
//! Spec: QEMU, `docs/interop/qmp-spec.rst`, "QEMU QMP Reference Manual".

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A connection.
#[derive(Debug)]
pub struct Qmp {
    stream: BufReader<UnixStream>,
}

impl Qmp {
    /// Takes over a new connection.
    ///
    /// # Errors
    /// Returns an error if QEMU does not send its greeting.
    pub fn new(stream: UnixStream) -> Result<Qmp> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut qmp = Qmp {
            stream: BufReader::new(stream),
        };
        let greeting = qmp.line()?;
        if greeting.get("QMP").is_none() {
            bail!("no greeting of QEMU: {greeting}");
        }
        qmp.execute("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    /// Executes a command, and returns its result.
    ///
    /// # Errors
    /// Returns an error if QEMU refuses the command, or has ended.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let line = format!(
            "{}\n",
            json!({ "execute": command, "arguments": arguments })
        );
        self.stream.get_mut().write_all(line.as_bytes())?;
        loop {
            let mut answer = self.line()?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU refuses {command}: {error}");
            }
            // Lines with neither an error nor a result are events.
            if let Some(result) = answer.get_mut("return") {
                return Ok(result.take());
            }
        }
    }

    /// Repeats a query until its result has this status.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute). Also returns an error if the status is `failed`, or if the result
    /// does not get the status within `limit`.
    pub fn wait_for_status(&mut self, query: &str, status: &str, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        loop {
            let result = self.execute(query, &json!({}))?;
            let found = result.get("status").and_then(Value::as_str);
            if found == Some(status) {
                return Ok(());
            }
            if found == Some("failed") || Instant::now() >= end {
                bail!("QEMU's answer to {query} is {result}; expected the status {status}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Writes the picture of the display into a file.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute).
    pub fn screendump(&mut self, file: &Path) -> Result<()> {
        self.execute("screendump", &json!({ "filename": file }))
            .map(drop)
    }

    /// Presses or releases a key.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute).
    pub fn key(&mut self, key: &str, pressed: bool) -> Result<()> {
        let key = json!({ "type": "qcode", "data": key });
        self.send(&[json!({ "type": "key", "data": { "down": pressed, "key": key } })])
    }

    /// Moves the pointer to a position on the display. `x` (to the right) and `y` (down) range from 0 to 32 767.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute).
    pub fn point(&mut self, x: u16, y: u16) -> Result<()> {
        let axis = |axis: &str, value: u16| json!({ "type": "abs", "data": { "axis": axis, "value": value } });
        self.send(&[axis("x", x), axis("y", y)])
    }

    /// Presses or releases a button: `left`, `right`, `middle`, `wheel-up`, `wheel-down`.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute).
    pub fn button(&mut self, button: &str, pressed: bool) -> Result<()> {
        let data = json!({ "down": pressed, "button": button });
        self.send(&[json!({ "type": "btn", "data": data })])
    }

    fn send(&mut self, events: &[Value]) -> Result<()> {
        self.execute("input-send-event", &json!({ "events": events }))
            .map(drop)
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        let read = self
            .stream
            .read_line(&mut line)
            .context("QEMU does not answer")?;
        if read == 0 {
            bail!("QEMU has ended");
        }
        serde_json::from_str(&line).context("QEMU sent no JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_events_and_errors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let qemu = std::thread::spawn(move || {
            let mut stream = BufReader::new(theirs);
            stream.get_mut().write_all(b"{\"QMP\": {}}\n").unwrap();
            let answers = [
                "{\"return\": {}}\n",
                "{\"event\": \"RESET\"}\n{\"return\": 7}\n",
                "{\"error\": {\"desc\": \"no such key\"}}\n",
                "{\"return\": {\"status\": \"active\"}}\n",
                "{\"return\": {\"status\": \"completed\"}}\n",
                "{\"return\": {\"status\": \"failed\", \"error-desc\": \"disk\"}}\n",
            ];
            let mut commands = Vec::new();
            for answer in answers {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                commands.push(line);
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
            }
            commands
        });
        let mut qmp = Qmp::new(ours).unwrap();
        assert_eq!(qmp.execute("query-status", &json!({})).unwrap(), json!(7));
        let why = qmp.key("nonsense", true).unwrap_err().to_string();
        assert!(why.contains("no such key"), "{why}");
        let limit = Duration::from_secs(60);
        qmp.wait_for_status("query-migrate", "completed", limit)
            .unwrap();
        let why = qmp
            .wait_for_status("query-migrate", "completed", limit)
            .unwrap_err()
            .to_string();
        assert!(why.contains("disk"), "{why}");
        let commands = qemu.join().unwrap();
        assert!(commands[2].contains("\"qcode\""), "{}", commands[2]);
    }
}
