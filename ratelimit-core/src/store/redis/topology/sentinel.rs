//! Sentinel: finding the master, and other sentinels.

use std::collections::HashMap;
use std::time::Duration;

use redis::{
    Cmd, ConnectionInfo, ErrorKind, FromRedisValue, RedisConnectionInfo, RedisError, RedisResult, Value,
};

use tokio::time::{sleep, timeout};

use super::connector::{Connector, server_at};
use super::server::ServerConnection;
use crate::store::redis::error::SENTINEL_CREDENTIALS;

/// Time after which a sentinel is queried for other sentinels again.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Largest number of sentinels that are remembered.
const MOST_SENTINELS: usize = 16;

/// The sentinels of a service.
pub(super) struct Sentinels {
    /// Sentinels of the URL. The credentials of the URL are for the servers.
    named: Vec<ConnectionInfo>,
    /// Known sentinels in the order in which they are queried: first the one that replied last.
    nodes: Vec<ConnectionInfo>,
    service: String,
}

impl Sentinels {
    pub(super) fn new(named: Vec<ConnectionInfo>, service: String) -> Self {
        Self { nodes: named.clone(), named, service }
    }

    /// Queries other sentinels at once and then at an interval: when the master fails, all sentinels that
    /// were known before may have been replaced. Does not do so while connecting, which does not need them.
    pub(super) async fn look_around(&mut self, connector: &Connector) {
        loop {
            self.look(connector).await;
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Learns from the first sentinel. If it does not answer, the next one is the first.
    async fn look(&mut self, connector: &Connector) {
        if let Some(sentinel) = self.nodes.first().cloned() {
            match self.others_known_to(&sentinel, connector).await {
                Ok(others) => self.note(&sentinel, others),
                // The user may lack the permission: then only the sentinels of the URL are known.
                Err(_) => self.nodes.rotate_left(1),
            }
        }
    }

    /// Notes the sentinel that answered, and the others that it knows. Sentinels of the URL are always kept,
    /// and come before those others, because a sentinel never forgets addresses that are gone. Earlier ones
    /// stay, because for a while after a reset a sentinel knows no other.
    fn note(&mut self, answered: &ConnectionInfo, others: Vec<(String, u16)>) {
        let others = others.into_iter().map(|(host, port)| server_at(answered, &host, port));
        let most = MOST_SENTINELS.max(1 + self.named.len());
        let mut nodes = vec![answered.clone()];
        for node in self.named.iter().cloned().chain(others).chain(self.nodes.drain(..)) {
            if nodes.len() < most && !nodes.iter().any(|known| known.addr() == node.addr()) {
                nodes.push(node);
            }
        }
        self.nodes = nodes;
    }

    /// A connection to the master. Sentinels are queried until one names a server that replies that it is a
    /// master: the server may have been demoted, or not been promoted yet. Whether the sentinel reports the
    /// master as down does not matter: after a pause of its process a sentinel does not update that for 30 s
    /// (TILT).
    pub(super) async fn connect_to_master(&mut self, connector: &Connector) -> RedisResult<ServerConnection> {
        let mut failure = RedisError::from((ErrorKind::EmptySentinelList, "there is no sentinel"));
        let mut tried: Vec<(String, u16)> = Vec::new();
        for _ in 0..self.nodes.len() {
            // Before the query: the attempt may be dropped during it, and the next attempt then begins with
            // the next sentinel.
            self.nodes.rotate_left(1);
            let sentinel = self.nodes[self.nodes.len() - 1].clone();
            match self.master_known_to(&sentinel, connector).await {
                Ok(named) if tried.contains(&named) => {}
                Ok(named) => {
                    let master = server_at(&sentinel, &named.0, named.1);
                    match connect_to_master(&master, connector).await {
                        Ok(connection) => {
                            self.note(&sentinel, Vec::new());
                            return Ok(connection);
                        }
                        Err(error) => failure = error,
                    }
                    tried.push(named);
                }
                // The error of a server says more than an error of connecting.
                Err(error) if failure.code().is_none() => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }

    /// Host and port of the master that a sentinel names.
    async fn master_known_to(
        &self,
        sentinel: &ConnectionInfo,
        connector: &Connector,
    ) -> RedisResult<(String, u16)> {
        let reply = self.query(sentinel, "GET-MASTER-ADDR-BY-NAME", connector).await.map_err(|error| {
            if error.to_string().contains("unknown command") {
                RedisError::from((ErrorKind::Client, "the address does not point to a sentinel"))
            } else {
                error
            }
        })?;
        Option::from_redis_value(reply)?.ok_or_else(|| {
            let problem = "the sentinel knows no service of this name";
            RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, problem, self.service.clone()))
        })
    }

    /// Hosts and ports of other sentinels.
    async fn others_known_to(
        &self,
        sentinel: &ConnectionInfo,
        connector: &Connector,
    ) -> RedisResult<Vec<(String, u16)>> {
        let others = self.query(sentinel, "SENTINELS", connector).await?;
        let address =
            |of: HashMap<String, String>| Some((of.get("ip")?.clone(), of.get("port")?.parse().ok()?));
        Ok(Vec::from_redis_value(others)?.into_iter().filter_map(address).collect())
    }

    /// The reply of a sentinel to a query about the service. A sentinel with a password gets the credentials
    /// of the URL.
    async fn query(
        &self,
        sentinel: &ConnectionInfo,
        subcommand: &str,
        connector: &Connector,
    ) -> RedisResult<Value> {
        let connector = connector.without_credentials();
        let mut command = redis::cmd("SENTINEL");
        command.arg(subcommand).arg(&self.service);
        let credentials = sentinel.redis_settings().clone().set_db(0);
        match query_as(sentinel, RedisConnectionInfo::default(), &command, &connector).await {
            Err(error) if error.code() == Some("NOAUTH") && credentials.password().is_some() => {
                query_as(sentinel, credentials, &command, &connector).await.map_err(|error| {
                    match error.kind() {
                        kind @ ErrorKind::AuthenticationFailed => {
                            RedisError::from((kind, SENTINEL_CREDENTIALS))
                        }
                        _ => error,
                    }
                })
            }
            reply => reply,
        }
    }
}

async fn query_as(
    sentinel: &ConnectionInfo,
    credentials: RedisConnectionInfo,
    command: &Cmd,
    connector: &Connector,
) -> RedisResult<Value> {
    let sentinel = sentinel.clone().set_redis_settings(credentials);
    let connection = ServerConnection::open(&sentinel, connector).await?;
    reply_in_time(&connection, command, "a sentinel does not answer in time", connector).await
}

/// The reply to a command, or an error with this text: a server that hangs accepts connections, but does not
/// reply. The steps before have a timeout of their own, whose error says what is slow.
async fn reply_in_time(
    connection: &ServerConnection,
    command: &Cmd,
    problem: &'static str,
    connector: &Connector,
) -> RedisResult<Value> {
    let late = |_| RedisError::from((ErrorKind::Io, problem));
    timeout(connector.timeouts.connect, connection.send(command)).await.map_err(late).flatten()
}

async fn connect_to_master(server: &ConnectionInfo, connector: &Connector) -> RedisResult<ServerConnection> {
    let connection = ServerConnection::open(server, connector).await?;
    let role = redis::cmd("ROLE");
    match reply_in_time(&connection, &role, "the master does not answer in time", connector).await? {
        Value::Array(role) if role.first() == Some(&Value::BulkString(b"master".to_vec())) => Ok(connection),
        _ => Err(RedisError::from((ErrorKind::Client, "the server that the sentinel names is no master"))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::store::redis::timeouts::Timeouts;
    use crate::store::redis::timeouts::tests::TIMEOUTS;
    use crate::store::redis::topology::hosts::Hosts;
    use crate::store::redis::topology::url::connection_info;

    /// A sentinel that replies to each query that it knows one other.
    fn sentinel_beside(other: u16) -> ConnectionInfo {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, mut query) = (listener.accept().unwrap().0, [0; 256]);
            while stream.read(&mut query).is_ok_and(|size| size > 0) {
                let reply = format!("*1\r\n*4\r\n+ip\r\n+10.0.0.1\r\n+port\r\n+{other}\r\n");
                stream.write_all(reply.as_bytes()).unwrap();
            }
        });
        connection_info(&url).unwrap()
    }

    #[tokio::test]
    async fn a_sentinel_that_is_gone_is_passed_over_in_the_next_look() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let gone = connection_info(&format!("redis://{gone}")).unwrap();
        let named = vec![gone, sentinel_beside(7)];
        let connector = Connector {
            timeouts: Timeouts { connect: Duration::from_secs(30), ..TIMEOUTS },
            hosts: Arc::new(Hosts::of(&named, &TIMEOUTS)),
            tls: None,
            credentials: None,
        };
        let mut sentinels = Sentinels::new(named.clone(), "main".to_owned());
        for _ in 0..2 {
            sentinels.look(&connector).await;
        }
        let known: Vec<_> = sentinels.nodes.iter().map(|node| node.addr().clone()).collect();
        let learned = connection_info("redis://10.0.0.1:7").unwrap();
        assert_eq!(known, [&named[1], &named[0], &learned].map(|node| node.addr().clone()));
    }

    #[test]
    fn sentinels_of_the_url_stay_whatever_others_are_named() {
        let at = |port: u16| connection_info(&format!("redis://10.0.0.1:{port}")).unwrap();
        let named: Vec<_> = (1..=3).map(at).collect();
        let mut sentinels = Sentinels::new(named.clone(), "main".to_owned());
        for round in 0..5 {
            let others = (0..20).map(|other| ("10.0.0.2".to_owned(), 100 * round + other)).collect();
            sentinels.note(&at(1000 + round), others);
            assert_eq!(sentinels.nodes.len(), MOST_SENTINELS);
            let addresses = |nodes: &[ConnectionInfo]| -> Vec<_> {
                nodes.iter().map(|node| node.addr().clone()).collect()
            };
            assert_eq!(
                addresses(&sentinels.nodes[..4]),
                addresses(&[&[at(1000 + round)], &named[..]].concat())
            );
        }
        // Sentinels of the URL stay even if they are more than are remembered otherwise.
        let named: Vec<_> = (1..=20).map(at).collect();
        let mut sentinels = Sentinels::new(named, "main".to_owned());
        sentinels.note(&at(1000), Vec::new());
        assert_eq!(sentinels.nodes.len(), 21);
    }
}
