//! One connection: its protocol options, and how it follows the commands it gets. A TLS handshake is dropped on any command.

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;

use super::body::RequestBody;
use super::exchange::Exchanges;
use super::socket::{Socket, Transport};
use super::state::{Command, ConnectionState, MAX_STREAMS};
use super::tls::{self, Certificates};

/// Maximum size of a request head, and of the read buffer of an HTTP/1 connection.
const MAX_HEAD: usize = 16 * 1024;
/// Bytes that a client may send on an HTTP/2 connection, and in one request of it, before they are read.
const WINDOW: u32 = 128 * 1024;

/// The HTTP options of all connections.
#[derive(Debug, Clone)]
pub(super) struct Protocols(auto::Builder<TokioExecutor>);

impl Protocols {
    pub(super) fn new() -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // No timer for HTTP/1: its head deadline would cost one per request. See `deadline`.
        builder.http1().half_close(false).max_buf_size(MAX_HEAD);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(16 * 1024)
            // Resetting streams at once costs the client nothing (rapid reset): 20 in a row end the connection.
            .max_pending_accept_reset_streams(20)
            .max_local_error_reset_streams(128)
            // Bounds what a client may send before a body is read: bodies are at most 1 MiB, and read as they arrive.
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_send_buf_size(64 * 1024)
            .keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(10));
        Self(builder)
    }

    /// Serves one connection to its end.
    pub(super) async fn serve<T, S, B>(self: Arc<Self>, stream: T, service: S, state: Arc<ConnectionState>)
    where
        T: Transport + Send + 'static,
        S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let socket = TokioIo::new(Socket::new(stream, Arc::clone(&state)));
        let exchanges = Exchanges::new(service, Arc::clone(&state));
        let mut connection = pin!(self.0.serve_connection(socket, exchanges));
        let mut commands = CommandReceiver::default();
        let mut retiring = false;
        poll_fn(|cx| {
            match commands.next(&state, cx) {
                Command::Continue => {}
                Command::Drain if retiring => {}
                Command::Drain => {
                    retiring = true;
                    connection.as_mut().graceful_shutdown();
                }
                Command::Close => return Poll::Ready(()),
            }
            // Errors here are caused by the client: it disconnected or did not send HTTP.
            connection.as_mut().poll(cx).map(drop)
        })
        .await;
    }

    /// Performs the TLS handshake, then serves the connection to its end.
    pub(super) async fn serve_secured<S, B>(
        self: Arc<Self>,
        stream: TcpStream,
        certificates: Arc<dyn Certificates>,
        service: S,
        state: Arc<ConnectionState>,
    ) where
        S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let secured = {
            // Boxed, so that its memory is freed after the handshake.
            let mut handshake = Box::pin(tls::secured(stream, &state, &*certificates));
            let mut commands = CommandReceiver::default();
            poll_fn(|cx| match commands.next(&state, cx) {
                Command::Continue => handshake.as_mut().poll(cx),
                Command::Drain | Command::Close => Poll::Ready(None),
            })
            .await
        };
        match secured {
            Some(stream) => self.serve(stream, service, state).await,
            None => state.leave(),
        }
    }
}

/// Receives the commands of a connection. A task keeps its waker, so registering it again costs a comparison.
#[derive(Default)]
struct CommandReceiver(Option<Waker>);

impl CommandReceiver {
    fn next(&mut self, state: &ConnectionState, cx: &Context<'_>) -> Command {
        if !self.0.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.wake_with(cx.waker());
            self.0 = Some(cx.waker().clone());
        }
        state.command()
    }
}
