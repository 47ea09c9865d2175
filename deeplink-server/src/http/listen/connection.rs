//! One connection: which protocol options it runs with, and how it follows the orders of its watch. With TLS it begins
//! with a handshake, which has nothing to finish when there is an order.

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

use super::exchange::{Exchanges, RequestBody};
use super::socket::{Carrier, Socket};
use super::tls::{self, Certificates};
use super::watch::{Order, Watch};

/// A request head, and thereby the read buffer of an HTTP/1 connection, is at most this large.
const MAX_HEAD: usize = 16 * 1024;

/// The protocols as they are spoken on every connection.
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
            .max_concurrent_streams(128)
            .max_header_list_size(16 * 1024)
            // A stream that is reset before it was looked at costs the client nothing: 20 in a row end the connection.
            .max_pending_accept_reset_streams(20)
            .max_local_error_reset_streams(128)
            // What one client can make us hold: bodies are at most 1 MiB, and read as they come.
            .initial_stream_window_size(128 * 1024)
            .initial_connection_window_size(512 * 1024)
            .max_send_buf_size(64 * 1024)
            .keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(10));
        Self(builder)
    }

    /// Serves one connection to its end.
    pub(super) async fn serve<T, S, B>(self: Arc<Self>, stream: T, service: S, watch: Arc<Watch>)
    where
        T: Carrier + Send + 'static,
        S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
        S::Future: Send + 'static,
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let socket = TokioIo::new(Socket::new(stream, Arc::clone(&watch)));
        let exchanges = Exchanges::new(service, Arc::clone(&watch));
        let mut connection = pin!(self.0.serve_connection(socket, exchanges));
        let mut ear = Ear::default();
        let mut retiring = false;
        poll_fn(|cx| {
            match ear.order(&watch, cx) {
                Order::Serve => {}
                Order::Retire if retiring => {}
                Order::Retire => {
                    retiring = true;
                    connection.as_mut().graceful_shutdown();
                }
                Order::Cut => return Poll::Ready(()),
            }
            // Errors here are the client's doing: it went away or sent what is not HTTP.
            connection.as_mut().poll(cx).map(drop)
        })
        .await;
    }

    /// Agrees on TLS, then serves the connection to its end.
    pub(super) async fn serve_secured<S, B>(
        self: Arc<Self>,
        stream: TcpStream,
        certificates: Arc<dyn Certificates>,
        service: S,
        watch: Arc<Watch>,
    ) where
        S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
        S::Future: Send + 'static,
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let secured = {
            // Boxed, so that its keys and messages take no room for as long as the connection lives.
            let mut handshake = Box::pin(tls::secured(stream, &watch, &*certificates));
            let mut ear = Ear::default();
            poll_fn(|cx| match ear.order(&watch, cx) {
                Order::Serve => handshake.as_mut().poll(cx),
                Order::Retire | Order::Cut => Poll::Ready(None),
            })
            .await
        };
        match secured {
            Some(stream) => self.serve(stream, service, watch).await,
            None => watch.leave(),
        }
    }
}

/// Hears the orders of a watch. A task keeps its waker for life, so it is registered once and costs a comparison after
/// that.
#[derive(Default)]
struct Ear(Option<Waker>);

impl Ear {
    fn order(&mut self, watch: &Watch, cx: &Context<'_>) -> Order {
        if !self.0.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            watch.wake_with(cx.waker());
            self.0 = Some(cx.waker().clone());
        }
        watch.order()
    }
}
