//! Clients that vanish without a word: their connections end after 30 s.

// recipe
use std::any::Any;

use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use rustix::net::sockopt::set_tcp_user_timeout;

/// For `HttpServer::on_connect`: a connection ends if the client has not acknowledged data for 30 s.
fn lose_vanished_clients(connection: &dyn Any, _: &mut Extensions) {
    if let Some(stream) = connection.downcast_ref::<TcpStream>() {
        // In milliseconds. After an error the system's own time holds.
        let _ = set_tcp_user_timeout(stream, 30_000);
    }
}
// end

use std::net;
use std::sync::mpsc;

use actix_web::{App, HttpServer, rt};
use rustix::net::sockopt::tcp_user_timeout;

#[actix_web::test]
async fn a_connection_has_the_timeout() {
    let (sender, timeouts) = mpsc::channel();
    let server = HttpServer::new(App::new)
        .on_connect(move |connection, extensions| {
            lose_vanished_clients(connection, extensions);
            let stream = connection.downcast_ref::<TcpStream>().expect("a connection without TLS");
            sender.send(tcp_user_timeout(stream)).unwrap();
        })
        .workers(1)
        .bind(("127.0.0.1", 0))
        .unwrap();
    let address = server.addrs()[0];
    let server = server.run();
    let handle = server.handle();
    rt::spawn(server);
    let client = net::TcpStream::connect(address).unwrap();
    let timeout = rt::task::spawn_blocking(move || timeouts.recv().unwrap()).await.unwrap();
    assert_eq!(timeout.unwrap(), 30_000);
    drop(client);
    handle.stop(false).await;
}
