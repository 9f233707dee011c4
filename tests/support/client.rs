//! A client that speaks just enough HTTP/1.1 over a real connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest wait for a server that has stopped answering: a limit for the test, not a measure.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer, read to its end.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Names in lower case, in the order in which they came.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
}

impl Reply {
    /// A field's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// `GET path`, with further fields such as `"X-API-Key: abc"`.
pub fn get(server: SocketAddr, path: &str, headers: &[&str]) -> Reply {
    send(server, "GET", path, headers)
}

/// Sends a request without a body on a connection of its own. A `Content-Length` among the fields is a
/// promise that is not kept: the server has to answer without it.
pub fn send(server: SocketAddr, method: &str, path: &str, headers: &[&str]) -> Reply {
    let mut connection = TcpStream::connect(server).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n");
    for header in headers {
        request += header;
        request += "\r\n";
    }
    request += "\r\n";
    connection.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    parse(&text)
}

/// An answer from its text.
pub fn parse(text: &str) -> Reply {
    let (head, body) = text.split_once("\r\n\r\n").expect(text);
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(':').expect(line);
        (name.to_lowercase(), value.trim().to_owned())
    });
    Reply { status: status.expect(text).parse().unwrap(), headers: headers.collect(), body: body.to_owned() }
}
