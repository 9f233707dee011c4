//! A TCP proxy on loopback that disturbs what the server answers.

use std::net::TcpListener as StdListener;
use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::redis::free_port;

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It arrives.
    Pass,
    /// It arrives late.
    Delay(Duration),
    /// It waits, and all behind it, until the mode is another.
    Hold,
    /// It arrives late, but holds up no other: a long way. Holds for connections that are made meanwhile.
    Distance(Duration),
    /// Nothing arrives, in either direction.
    Swallow,
    /// Half of it arrives, then the connection is reset.
    Reset,
    /// The next one is lost, and the connection is reset; from then on they arrive.
    ResetNext,
    /// The next one is lost, and the connection goes on; from then on they arrive.
    LoseNext,
    /// The next one arrives twice; from then on they arrive.
    RepeatNext,
    /// Half of it arrives, then the connection is closed in good order.
    Cut,
    /// Some words of it are replaced by others of the same length.
    Replace(&'static str, &'static str),
    /// It arrives byte by byte, with a pause before each.
    Trickle(Duration),
    /// Something else arrives, which is not the protocol.
    Garbage,
    /// The announcement of a terabyte arrives.
    Oversized,
}

/// A running proxy; it ends with this value.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    _stop: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    target: AtomicU16,
    mode: Mutex<Mode>,
    accepted: AtomicUsize,
    /// Answers that wait for another mode, or have waited.
    held: AtomicUsize,
    /// Wakes them.
    changed: Notify,
    /// Connections from this number on, and below the other one, are swallowed, whatever the mode.
    hole: (AtomicUsize, AtomicUsize),
}

impl Proxy {
    /// Starts a proxy before the server on `target`.
    pub fn before(target: u16) -> Self {
        let (port, listener) = loop {
            let port = free_port();
            if let Ok(listener) = StdListener::bind(("127.0.0.1", port)) {
                break (port, listener);
            }
        };
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::new(Shared {
            target: AtomicU16::new(target),
            mode: Mutex::new(Mode::Pass),
            accepted: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            changed: Notify::new(),
            hole: Default::default(),
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let at_work = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = accept(listener, at_work) => {}
                }
            });
        });
        Self { port, shared, _stop: stop }
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Disturbs all connections in this way from now on.
    pub fn set(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
        self.shared.changed.notify_waiters();
    }

    /// Answers that wait because of [`Mode::Hold`], or have waited.
    pub fn held(&self) -> usize {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// Swallows what comes over the present connections; new ones work.
    pub fn swallow_present(&self) {
        self.swallow_newest(self.accepted());
    }

    /// The same of the newest ones.
    pub fn swallow_newest(&self, count: usize) {
        let end = self.accepted();
        self.swallow(end - count..end);
    }

    /// The same of all but the newest one.
    pub fn swallow_all_but_newest(&self) {
        self.swallow(0..self.accepted() - 1);
    }

    /// The same of those that are yet to come; the present ones work.
    pub fn swallow_new(&self) {
        self.swallow(self.accepted()..usize::MAX);
    }

    fn swallow(&self, connections: Range<usize>) {
        self.shared.hole.0.store(connections.start, Ordering::SeqCst);
        self.shared.hole.1.store(connections.end, Ordering::SeqCst);
    }

    /// Leads new connections to another server, as a changed address would.
    pub fn retarget(&self, target: u16) {
        self.shared.target.store(target, Ordering::SeqCst);
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn mode(&self, number: usize) -> Mode {
        if (self.hole.0.load(Ordering::SeqCst)..self.hole.1.load(Ordering::SeqCst)).contains(&number) {
            return Mode::Swallow;
        }
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until answers are no longer held.
    async fn passes(&self, number: usize) {
        let mut waits = false;
        loop {
            let changed = self.changed.notified();
            if self.mode(number) != Mode::Hold {
                return;
            }
            if !waits {
                self.held.fetch_add(1, Ordering::SeqCst);
                waits = true;
            }
            changed.await;
        }
    }

    /// The same for an answer, of which some modes treat each in its own way.
    fn mode_of_answer(&self, number: usize) -> Mode {
        match self.mode(number) {
            mode @ (Mode::ResetNext | Mode::LoseNext | Mode::RepeatNext) => {
                *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = Mode::Pass;
                mode
            }
            mode => mode,
        }
    }
}

async fn accept(listener: StdListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let target = shared.target.load(Ordering::SeqCst);
            let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
            let (client_read, client_write) = client.into_split();
            let (server_read, server_write) = server.into_split();
            // When one side ends, both do.
            tokio::select! {
                () = requests(&shared, number, client_read, server_write) => {}
                () = answers(&shared, number, server_read, client_write) => {}
            }
        });
    }
}

async fn requests(shared: &Shared, number: usize, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut chunk = vec![0; 65_536];
    while let Ok(size @ 1..) = from.read(&mut chunk).await {
        if shared.mode(number) != Mode::Swallow && to.write_all(&chunk[..size]).await.is_err() {
            return;
        }
    }
}

/// Hands on every answer this much later, however many are on the way.
async fn far_answers(delay: Duration, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let (leave, mut arrive) = mpsc::unbounded_channel();
    let read = async move {
        let mut chunk = vec![0; 65_536];
        while let Ok(size @ 1..) = from.read(&mut chunk).await {
            let _ = leave.send((Instant::now() + delay, chunk[..size].to_vec()));
        }
    };
    let write = async move {
        while let Some((at, answer)) = arrive.recv().await {
            sleep_until(at).await;
            if to.write_all(&answer).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}

async fn answers(shared: &Shared, number: usize, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    if let Mode::Distance(delay) = shared.mode(number) {
        return far_answers(delay, from, to).await;
    }
    let mut chunk = vec![0; 65_536];
    while let Ok(size @ 1..) = from.read(&mut chunk).await {
        let answer = &chunk[..size];
        shared.passes(number).await;
        let written = match shared.mode_of_answer(number) {
            Mode::Pass | Mode::Hold | Mode::Distance(_) => to.write_all(answer).await,
            Mode::Swallow | Mode::LoseNext => Ok(()),
            Mode::RepeatNext => to.write_all(&[answer, answer].concat()).await,
            Mode::ResetNext => {
                let _ = to.as_ref().set_zero_linger();
                return;
            }
            Mode::Replace(words, others) => to.write_all(&replaced(answer, words, others)).await,
            Mode::Delay(delay) => {
                tokio::time::sleep(delay).await;
                to.write_all(answer).await
            }
            Mode::Reset => {
                let _ = to.write_all(&answer[..size / 2]).await;
                let _ = to.as_ref().set_zero_linger();
                return;
            }
            Mode::Cut => {
                let _ = to.write_all(&answer[..size / 2]).await;
                return;
            }
            Mode::Trickle(pause) => trickle(&mut to, answer, pause).await,
            Mode::Garbage => to.write_all(b"?!garbage\r\n").await,
            Mode::Oversized => to.write_all(b"$1099511627776\r\n").await,
        };
        if written.is_err() {
            return;
        }
    }
}

fn replaced(answer: &[u8], words: &str, others: &str) -> Vec<u8> {
    assert_eq!(words.len(), others.len(), "the protocol announces lengths");
    let mut answer = answer.to_vec();
    while let Some(at) = answer.windows(words.len()).position(|part| part == words.as_bytes()) {
        answer[at..at + words.len()].copy_from_slice(others.as_bytes());
    }
    answer
}

async fn trickle(to: &mut OwnedWriteHalf, answer: &[u8], pause: Duration) -> std::io::Result<()> {
    for byte in answer {
        tokio::time::sleep(pause).await;
        to.write_all(std::slice::from_ref(byte)).await?;
    }
    Ok(())
}
