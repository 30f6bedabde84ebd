//! `pool-connector`: jobs that count as started when they are connected.

use std::future::IntoFuture;
use std::net::SocketAddr;

use tenure_pool::{BoxError, Client, Job, JobHandler, Node, RestartPolicy, Start};
use tenure_testing::{Endpoint, Failure};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::try_join;

const POOL: &str = "example-connector";

/// Holds one connection to the exchange per job.
struct Connector {
    exchange: SocketAddr,
    told: UnboundedSender<String>,
}

type Prices = Lines<BufReader<TcpStream>>;

impl Connector {
    /// The exchange greets whom it serves. `start_timeout` bounds how long this takes.
    async fn connect(&self, name: &str) -> Result<Prices, BoxError> {
        let mut feed = TcpStream::connect(self.exchange).await?;
        feed.write_all(format!("{name}\n").as_bytes()).await?;
        let mut prices = BufReader::new(feed).lines();
        prices.next_line().await?.ok_or("the exchange is closed")?;
        Ok(prices)
    }
}

impl JobHandler for Connector {
    async fn start(&self, job: Job) -> Start {
        let mut prices = match self.connect(&job.key().to_string()).await {
            Ok(prices) => prices,
            Err(error) => return Start::Failed(error),
        };
        let told = self.told.clone();
        // From here on the job counts as started. It runs until this future ends or the pool wants it to end.
        Start::Running(Box::pin(async move {
            loop {
                tokio::select! {
                    () = job.cancelled() => {
                        let _ = told.send(format!("{} hangs up", job.key()));
                        return Ok(());
                    }
                    price = prices.next_line() => {
                        // An error: the job starts again after a pause, as its policy says.
                        let price = price?.ok_or("the connection broke")?;
                        let _ = told.send(format!("{} hears {price}", job.key()));
                    }
                }
            }
        }))
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let private = redis.private().is_some();
    let exchange = TcpListener::bind("127.0.0.1:0").await?;
    let node = Node::builder(POOL, Client::open(redis.url())?).assume_fresh(private).join().await?;
    let (told, mut jobs) = unbounded_channel();
    node.add_worker(Connector { exchange: exchange.local_addr()?, told }).await?;

    // The exchange is closed: it hangs up without a greeting, and the dispatch fails.
    let turned_away = async {
        visitor(&exchange).await?;
        Ok::<_, Failure>(())
    };
    let dispatched = async { Ok(node.dispatch(("acme", "")).await) };
    if let (Err(error), ()) = try_join!(dispatched, turned_away)? {
        println!("acme: {error}");
    }

    // The dispatch returns when the exchange has greeted the job.
    let dispatched = async {
        node.dispatch(("acme", "")).restart(RestartPolicy::OnFailure).into_future().await?;
        println!("acme has started");
        Ok(())
    };
    let (mut feed, ()) = try_join!(greet(&exchange), dispatched)?;
    feed.write_all(b"17\n18\n").await?;
    hear(&mut jobs, 2).await;

    println!("the exchange hangs up");
    drop(feed);
    let mut feed = greet(&exchange).await?;
    feed.write_all(b"19\n").await?;
    hear(&mut jobs, 1).await;

    node.stop_job("acme").await?;
    hear(&mut jobs, 1).await;
    node.operate().shutdown().await?;
    Ok(())
}

/// The next one that connects, and its name.
async fn visitor(exchange: &TcpListener) -> Result<(TcpStream, String), Failure> {
    let (mut feed, _) = exchange.accept().await?;
    let mut name = String::new();
    BufReader::new(&mut feed).read_line(&mut name).await?;
    Ok((feed, name.trim_end().to_owned()))
}

/// Serves the next one that connects.
async fn greet(exchange: &TcpListener) -> Result<TcpStream, Failure> {
    let (mut feed, name) = visitor(exchange).await?;
    println!("the exchange greets {name}");
    feed.write_all(b"hello\n").await?;
    Ok(feed)
}

/// Prints what the jobs tell.
async fn hear(jobs: &mut UnboundedReceiver<String>, lines: usize) {
    for _ in 0..lines {
        println!("{}", jobs.recv().await.unwrap_or_default());
    }
}
