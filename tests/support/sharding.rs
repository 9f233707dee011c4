//! A proxy before several servers, as twemproxy: it sends a script to the server of its first key, and splits
//! a command with several keys.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use redis::{ConnectionLike, Value};

use crate::redis::free_port;

/// Starts one on loopback, for as long as the process runs, and gives its URL.
pub fn sharding_proxy(servers: &[u16]) -> String {
    let listener = TcpListener::bind(("127.0.0.1", free_port())).unwrap();
    let url = format!("redis://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    let servers = servers.to_vec();
    thread::spawn(move || {
        for client in listener.incoming() {
            let servers = servers.clone();
            thread::spawn(move || serve(client.unwrap(), &servers));
        }
    });
    url
}

fn serve(mut client: TcpStream, servers: &[u16]) {
    let connect = |port: &u16| redis::Client::open(("127.0.0.1", *port)).unwrap().get_connection().unwrap();
    let mut servers: Vec<redis::Connection> = servers.iter().map(connect).collect();
    let mut requests = BufReader::new(client.try_clone().unwrap());
    let mut parser = redis::Parser::new();
    while let Ok(Value::Array(request)) = parser.parse_value(&mut requests) {
        let words: Vec<Vec<u8>> =
            request.into_iter().map(|word| redis::from_redis_value(word).unwrap()).collect();
        let count = servers.len();
        // Any even spread will do.
        let server_of = |key: &[u8]| key.iter().map(|byte| usize::from(*byte)).sum::<usize>() % count;
        let mut ask = |server: usize, words: &[Vec<u8>]| {
            let mut command = redis::Cmd::new();
            command.arg(words);
            servers[server].req_packed_command(&command.get_packed_command()).unwrap()
        };
        let reply = match words[0].as_slice() {
            b"EVAL" | b"EVALSHA" => ask(server_of(&words[3]), &words),
            b"UNLINK" => {
                let removed = words[1..].iter().map(|key| {
                    let reply = ask(server_of(key), &[words[0].clone(), key.clone()]);
                    redis::from_redis_value::<i64>(reply).unwrap()
                });
                Value::Int(removed.sum())
            }
            _ => ask(0, &words),
        };
        if client.write_all(&encode(&reply)).is_err() {
            return;
        }
    }
}

fn encode(reply: &Value) -> Vec<u8> {
    match reply {
        Value::Nil => b"$-1\r\n".to_vec(),
        Value::Int(number) => format!(":{number}\r\n").into_bytes(),
        Value::Okay => b"+OK\r\n".to_vec(),
        Value::SimpleString(text) => format!("+{text}\r\n").into_bytes(),
        Value::BulkString(bytes) => [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat(),
        Value::Array(items) => {
            let mut array = format!("*{}\r\n", items.len()).into_bytes();
            array.extend(items.iter().flat_map(encode));
            array
        }
        Value::ServerError(error) => {
            format!("-{} {}\r\n", error.code(), error.details().unwrap_or_default()).into_bytes()
        }
        other => panic!("a reply of an unknown kind: {other:?}"),
    }
}
