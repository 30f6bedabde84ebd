//! `stream-many`: one reader of many streams, which come and go while it reads.

use std::time::Duration;

use futures::StreamExt;
use tenure_connection::Client;
use tenure_examples::text;
use tenure_streaming::{Reader, Start, Stream};
use tenure_testing::{Endpoint, Failure};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let client = Client::open(redis.url())?;
    let [oslo, lima, cairo] =
        ["example:oslo", "example:lima", "example:cairo"].map(|name| Stream::new(&client, name));
    let (oslo, lima, cairo) = (oslo?, lima?, cairo?);

    let reader =
        Reader::builder(&client).stream("example:oslo", Start::Newest).stream("example:lima", Start::Newest);
    let mut reader = reader.block(Duration::from_secs(30)).open().await?;
    let handle = reader.handle();

    measure(&oslo, "-3").await?;
    show(&mut reader).await?;
    measure(&lima, "19").await?;
    show(&mut reader).await?;

    // Another task adds a stream while the reader waits: it is read at once.
    let added = tokio::spawn(async move {
        measure(&cairo, "31").await?;
        handle.add_stream("example:cairo", Start::Oldest).await?;
        handle.remove_stream("example:oslo");
        Ok::<_, tenure_streaming::Error>((handle, cairo))
    });
    show(&mut reader).await?;
    let (handle, cairo) = added.await??;

    // Entries of a removed stream do not come, and no other is missed.
    measure(&oslo, "-4").await?;
    measure(&lima, "20").await?;
    measure(&cairo, "32").await?;
    // Each stream keeps its order; there is none between streams.
    let mut last = Vec::new();
    for _ in 0..2 {
        let entry = reader.next().await.ok_or("the reader has ended")??;
        last.push(format!("{} says {}", entry.stream, text(entry.get("celsius"))));
    }
    last.sort_unstable();
    println!("{}", last.join("\n"));
    let mut streams: Vec<_> = handle.cursors().iter().map(|(stream, _)| stream.to_string()).collect();
    streams.sort_unstable();
    println!("it reads {}", streams.join(" and "));

    for stream in [oslo, lima, cairo] {
        stream.destroy().await?;
    }
    Ok(())
}

async fn measure(place: &Stream, celsius: &str) -> Result<(), tenure_streaming::Error> {
    place.add(&[("celsius", celsius)]).await.map(drop)
}

async fn show(reader: &mut Reader) -> Result<(), Failure> {
    let entry = reader.next().await.ok_or("the reader has ended")??;
    println!("{} says {}", entry.stream, text(entry.get("celsius")));
    Ok(())
}
