//! A service with handlers of the test, on a real port.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::thread;

use actix_web::dev::ServerHandle;
use actix_web::middleware::Compress;
use actix_web::web::ServiceConfig;
use actix_web::{App, HttpServer};

/// A running service; it ends with this value.
#[derive(Debug)]
pub struct Service {
    /// Where it listens.
    pub address: SocketAddr,
    handle: ServerHandle,
}

impl Service {
    /// Starts it on a free port, for HTTP/1.1 and for HTTP/2 with prior knowledge, compressing what clients
    /// accept compressed.
    pub fn start(configure: impl Fn(&mut ServiceConfig) + Clone + Send + 'static) -> Self {
        Self::with_half_closed(true, configure)
    }

    /// Starts it so that it answers clients that have closed their half of the connection, as by default, or
    /// takes them for gone.
    pub fn with_half_closed(
        allowed: bool,
        configure: impl Fn(&mut ServiceConfig) + Clone + Send + 'static,
    ) -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let server = HttpServer::new(move || {
                    App::new().wrap(Compress::default()).configure(configure.clone())
                });
                let server = server
                    .h1_allow_half_closed(allowed)
                    .workers(1)
                    .bind_auto_h2c((Ipv4Addr::LOCALHOST, 0))
                    .unwrap();
                let address = server.addrs()[0];
                let running = server.run();
                sender.send((address, running.handle())).unwrap();
                running.await.unwrap();
            });
        });
        let (address, handle) = receiver.recv().unwrap();
        Self { address, handle }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The call tells the server to stop; when it has stopped is of no interest.
        drop(self.handle.stop(false));
    }
}

/// A service in the process of the test, of these handlers over one limiter.
#[macro_export]
macro_rules! service {
    ($limiter:expr, $($handler:expr),+ $(,)?) => {
        actix_web::test::init_service(
            actix_web::App::new().app_data(actix_web::web::Data::new($limiter.clone()))$(.service($handler))+
        ).await
    };
}
