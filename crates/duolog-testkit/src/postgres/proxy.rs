//! A proxy on loopback that knows enough of PostgreSQL's protocol to fail at a chosen statement.
//!
//! It forwards message by message. A [`Plan`] names a statement and an action: the connection is cut or stalls, before
//! the server gets the statement or before the client gets the answer. TLS is refused.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

mod frame;
mod statements;

use frame::{Frame, Hello};
use statements::Statements;

/// The time that [`Proxy::wait_fired`] waits for a statement.
const PATIENCE: Duration = Duration::from_mins(1);
/// The largest answer that is held back; a client that requests more is disconnected.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The behaviour of the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// Forwards everything.
    #[default]
    Pass,
    /// Closes every new connection at once.
    Refuse,
    /// Reports this server version to new clients, such as `14.99`: in the greeting, and in the result of a query for
    /// its number.
    Version(String),
    /// Acts once, on the next statement that contains the text, ignoring case; then forwards everything.
    At {
        /// A part of the statement.
        text: String,
        /// The point in time to act.
        moment: Moment,
        /// The action.
        act: Act,
    },
}

/// The point in time at which a [`Plan`] acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The server has not received the statement.
    BeforeServer,
    /// The server has executed the statement and answered; the client has not received the answer.
    BeforeClient,
}

/// The action of a [`Plan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Closes the connection on both sides.
    Cut,
    /// Holds the connection until the next plan.
    Stall,
}

impl Plan {
    /// Cuts the connection before the server gets the statement.
    pub fn cut_before(text: &str) -> Self {
        Self::At { text: text.to_owned(), moment: Moment::BeforeServer, act: Act::Cut }
    }

    /// Cuts the connection after the server executed the statement and before the client gets the answer.
    pub fn cut_after(text: &str) -> Self {
        Self::At { text: text.to_owned(), moment: Moment::BeforeClient, act: Act::Cut }
    }

    /// Holds the statement back from the server.
    pub fn stall_before(text: &str) -> Self {
        Self::At { text: text.to_owned(), moment: Moment::BeforeServer, act: Act::Stall }
    }

    /// Holds the answer back from the client.
    pub fn stall_after(text: &str) -> Self {
        Self::At { text: text.to_owned(), moment: Moment::BeforeClient, act: Act::Stall }
    }
}

/// A proxy in front of one server. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    desk: Arc<Desk>,
    accepting: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 and forwards to `upstream`, a `host:port`.
    pub fn start(upstream: &str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let desk = Arc::new(Desk { upstream: upstream.to_owned(), ..Desk::default() });
        let accepting = std::thread::spawn({
            let desk = Arc::clone(&desk);
            move || desk.accept(&listener)
        });
        Ok(Self { address, desk, accepting: Some(accepting) })
    }

    /// Returns the address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL with the address of this proxy.
    pub fn url(&self, url: &str) -> String {
        match url.rsplit_once('@').map(|(before, rest)| (before, rest.split_once('/').map_or("", |(_, path)| path))) {
            Some((before, path)) => format!("{before}@{}/{path}", self.address),
            None => url.to_owned(),
        }
    }

    /// Sets the plan from now on, and resumes connections that an earlier plan stalled.
    pub fn plan(&self, plan: Plan) {
        let mut state = self.desk.state();
        state.plan = plan;
        state.plans += 1;
        self.desk.changed.notify_all();
    }

    /// Returns how often a plan acted.
    pub fn fired(&self) -> u64 {
        self.desk.state().fired
    }

    /// Waits until plans have acted `count` times in total. Returns false after a minute.
    pub fn wait_fired(&self, count: u64) -> bool {
        let waiting = self.desk.changed.wait_timeout_while(self.desk.state(), PATIENCE, |state| state.fired < count);
        waiting.unwrap_or_else(PoisonError::into_inner).0.fired >= count
    }

    /// Cuts every open connection.
    pub fn cut(&self) {
        self.desk.state().cut_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        {
            let mut state = self.desk.state();
            state.closed = true;
            state.cut_all();
            self.desk.changed.notify_all();
        }
        // The accepting thread checks `closed` after each connection.
        if TcpStream::connect(self.address).is_ok()
            && let Some(accepting) = self.accepting.take()
        {
            let _ = accepting.join();
        }
    }
}

/// The state that the threads of a proxy share.
#[derive(Debug, Default)]
struct Desk {
    upstream: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    plan: Plan,
    /// The number of plans so far; a stall ends with the next.
    plans: u64,
    fired: u64,
    closed: bool,
    /// Both ends of every open connection.
    open: HashMap<u64, [TcpStream; 2]>,
    connections: u64,
}

impl State {
    fn cut(&self, connection: u64) {
        for stream in self.open.get(&connection).into_iter().flatten() {
            // The other side may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn cut_all(&self) {
        for connection in self.open.keys() {
            self.cut(*connection);
        }
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming().flatten() {
            let state = self.state();
            if state.closed {
                return;
            }
            if state.plan != Plan::Refuse {
                let desk = Arc::clone(self);
                std::thread::spawn(move || desk.serve(client));
            }
        }
    }

    /// Serves one client until either side closes or fails.
    fn serve(self: Arc<Self>, client: TcpStream) {
        let Ok(connection) = self.connect(client) else { return };
        let talk = Arc::new(Mutex::new(Talk::default()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ = self.to_client(&connection, &talk);
                self.state().cut(connection.number);
            });
            let _ = self.to_server(&connection, &talk);
            self.state().cut(connection.number);
        });
        self.state().open.remove(&connection.number);
    }

    fn connect(&self, mut client: TcpStream) -> io::Result<Connection> {
        client.set_nodelay(true)?;
        let hello = Hello::read(&mut client)?;
        let mut server = TcpStream::connect(&self.upstream)?;
        server.set_nodelay(true)?;
        let mut state = self.state();
        if state.closed {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let number = state.connections;
        state.connections += 1;
        state.open.insert(number, [client.try_clone()?, server.try_clone()?]);
        drop(state);
        server.write_all(&hello.0)?;
        Ok(Connection { number, client, server })
    }

    fn to_server(&self, connection: &Connection, talk: &Mutex<Talk>) -> io::Result<()> {
        let (mut client, mut server) = (&connection.client, &connection.server);
        let mut statements = Statements::default();
        while let Some(frame) = Frame::read(&mut client)? {
            if let Some(statement) = statements.hear(&frame)
                && let Some((moment, act, plans)) = self.catch(&statement)
            {
                match (moment, act) {
                    (Moment::BeforeServer, Act::Cut) => {
                        self.cut_by_plan(connection);
                        return Ok(());
                    }
                    (Moment::BeforeServer, Act::Stall) => {
                        self.fire();
                        self.stall(plans);
                    }
                    // Recorded before the server has the statement, and so before it can answer.
                    (Moment::BeforeClient, act) => lock(talk).hold(act, plans),
                }
            }
            if frame.asks() {
                lock(talk).asked += 1;
            }
            frame.forward(&mut client, &mut server)?;
        }
        Ok(())
    }

    fn to_client(&self, connection: &Connection, talk: &Mutex<Talk>) -> io::Result<()> {
        let (mut client, mut server) = (&connection.client, &connection.server);
        let (mut kept, mut truth) = (Vec::new(), None);
        while let Some(mut frame) = Frame::read(&mut server)? {
            if let Plan::Version(version) = &self.state().plan {
                frame.claim_version(version, &mut truth);
            }
            let ends = frame.ends_answer();
            let Some(hold) = lock(talk).holds_now() else {
                frame.forward(&mut server, &mut client)?;
                lock(talk).answered += u64::from(ends);
                continue;
            };
            if kept.len() + frame.len() > KEPT_BYTES_MAX {
                break;
            }
            frame.forward(&mut server, &mut kept)?;
            match hold.act {
                _ if !ends => {}
                Act::Cut => break,
                Act::Stall => {
                    self.fire();
                    self.stall(hold.plans);
                    client.write_all(&std::mem::take(&mut kept))?;
                    lock(talk).answered += 1;
                }
            }
        }
        // The answer will not come: by plan, because it is too long, or because the server is gone.
        if lock(talk).holds_now().is_some() {
            self.cut_by_plan(connection);
        }
        Ok(())
    }

    /// Returns the plan's action if it is for this statement; a plan acts once.
    fn catch(&self, statement: &str) -> Option<(Moment, Act, u64)> {
        let mut state = self.state();
        let Plan::At { text, moment, act } = &state.plan else { return None };
        if !statement.to_lowercase().contains(&text.to_lowercase()) {
            return None;
        }
        let caught = (*moment, *act, state.plans);
        state.plan = Plan::Pass;
        Some(caught)
    }

    fn cut_by_plan(&self, connection: &Connection) {
        self.state().cut(connection.number);
        self.fire();
    }

    fn fire(&self) {
        self.state().fired += 1;
        self.changed.notify_all();
    }

    /// Waits for the plan after number `plans`.
    fn stall(&self, plans: u64) {
        let waiting = self.changed.wait_while(self.state(), |state| state.plans == plans && !state.closed);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }
}

#[derive(Debug)]
struct Connection {
    number: u64,
    client: TcpStream,
    server: TcpStream,
}

/// The progress of the two directions of one connection.
///
/// A client may send several batches before it reads. The greeting and every message that ends a batch are answered by
/// exactly one `ReadyForQuery`, so counting both tells which answer belongs to which batch.
#[derive(Debug)]
struct Talk {
    asked: u64,
    answered: u64,
    hold: Option<Hold>,
}

impl Default for Talk {
    fn default() -> Self {
        Self { asked: 1, answered: 0, hold: None }
    }
}

/// An answer to hold back.
#[derive(Clone, Copy, Debug)]
struct Hold {
    batch: u64,
    act: Act,
    plans: u64,
}

impl Talk {
    fn hold(&mut self, act: Act, plans: u64) {
        self.hold = Some(Hold { batch: self.asked + 1, act, plans });
    }

    fn holds_now(&self) -> Option<Hold> {
        self.hold.filter(|hold| hold.batch == self.answered + 1)
    }
}

fn lock(talk: &Mutex<Talk>) -> MutexGuard<'_, Talk> {
    talk.lock().unwrap_or_else(PoisonError::into_inner)
}
