//! `flow`: a member joins through three queues, with a child for each role and a limit for each server.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tenure_examples::PATIENCE;
use tenure_jobs::{BoxError, Client, Ctx, Flow, Groups, Jobs, Outcome, Queue};
use tenure_testing::{Endpoint, Failure};

const SET: &str = "example-flow";
/// Two roles of one server in each window.
const WINDOW: Duration = Duration::from_millis(400);

#[derive(Serialize, Deserialize)]
struct Who {
    user: u32,
    roles: Vec<String>,
}

#[derive(Serialize)]
struct Access {
    ok: bool,
}

/// The fields that the last stage needs, of those that the stages before have left.
#[derive(Deserialize)]
struct Grant {
    ok: bool,
    roles: Vec<String>,
}

async fn access(_: Ctx, who: Who) -> Result<Outcome, BoxError> {
    println!("access: user {} may have {}", who.user, who.roles.join(", "));
    Ok(Outcome::next(&Access { ok: true })?)
}

async fn member(_: Ctx, who: Who) -> Result<Outcome, BoxError> {
    println!("member: user {} is one", who.user);
    Ok(Outcome::go_on())
}

async fn grant(ctx: Ctx, grant: Grant) -> Result<Outcome, BoxError> {
    let children = ctx.children().await?.unwrap_or_default();
    if children.len() < grant.roles.len() {
        println!("grant: allowed {}, a child for each of {} roles", grant.ok, grant.roles.len());
        // A run that was cut off half way has made some of them. None is made twice.
        for role in &grant.roles {
            ctx.spawn("discord", role, role).group("server 7").await?;
        }
        return Ok(Outcome::wait());
    }
    let granted = children.iter().filter(|child| child.error().is_none()).count();
    Ok(Outcome::result(&format!("{granted} granted, {} refused", children.len() - granted))?)
}

async fn discord(_: Ctx, role: String) -> Result<(), BoxError> {
    if role == "admin" { Err(tenure_jobs::Fatal::new("nobody grants that").into()) } else { Ok(()) }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let jobs = Jobs::builder(SET, Client::open(redis.url())?)
        .queues(["access", "member", "grant"])
        .queue(
            Queue::new("discord").groups(Groups::new().limit(2, WINDOW)).keep_failed(Duration::from_secs(60)),
        )
        .flow(Flow::new("join").then("access").then("member").then("grant").lookup("user").lookup("roles"))
        .join()
        .await?;
    let workers = [
        jobs.worker("access", access).start()?,
        jobs.worker("member", member).start()?,
        jobs.worker("grant", grant).start()?,
        jobs.worker("discord", discord).start()?,
    ];

    let began = Instant::now();
    let roles = ["reader", "writer", "admin", "editor", "guest"].map(str::to_owned).to_vec();
    let join = jobs.start("join", &Who { user: 62, roles }).await?;
    let ended = jobs.wait(&join.id).await?;
    println!("joined: {}", ended.result::<String>()?);
    // Five in windows of two: the third window has begun.
    println!("the limit was kept: {}", began.elapsed() > WINDOW);
    println!("found by user: {}", jobs.find("user", 62).await? == [join.id.clone()]);
    println!("found by role: {}", jobs.find("roles", "guest").await?.len());
    jobs.remove(&join.id).await?;
    println!("found when it is removed: {}", jobs.find("user", 62).await?.len());
    for worker in workers {
        worker.close(PATIENCE).await?;
    }
    Ok(())
}
