//! Shared by the small examples: reads their settings and reports errors in them.

use std::env::{self, VarError};
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

/// The result of an example.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// Runs the example; an error becomes one line on standard error.
pub(crate) fn run(example: impl Future<Output = Outcome>) -> ExitCode {
    match actix_web::rt::System::new().block_on(example) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads a variable, if it is set.
pub(crate) fn variable(name: &str) -> Result<Option<String>, Box<dyn Error>> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(format!("{name} is not valid Unicode").into()),
    }
}

/// The address to listen on: this machine only, at the port in `PORT`, 8080 by default, 0 for any free port.
pub(crate) fn address() -> Result<SocketAddr, Box<dyn Error>> {
    let port = match variable("PORT")? {
        Some(port) => port.parse().map_err(|_| "PORT must be a number from 0 to 65535")?,
        None => 8080,
    };
    Ok((Ipv4Addr::LOCALHOST, port).into())
}

/// Makes the error for an `address` that cannot be bound, usually because another example listens there.
pub(crate) fn cannot_listen(address: SocketAddr) -> impl FnOnce(io::Error) -> Box<dyn Error> {
    move |error| format!("cannot listen on {address}: {error}").into()
}

/// Prints the addresses of the example, and commands to try.
pub(crate) fn introduce(addresses: &[SocketAddr], lines: &[&str]) {
    for address in addresses {
        println!("Listening on http://{address}, on this machine only. Try:\n");
        for line in lines {
            println!("  {}", line.replace("ADDRESS", &address.to_string()));
        }
        println!();
    }
}
