//! Asks, and what is said to them.

use super::RedisStore;
use super::ownership::{owner, tokens};
use super::steps::{Targets, column};
use crate::model::id::{Incarnation, Token};
use crate::store::{Ask, AskItem, AskReply, OnRedis, Reply, ReplyReply, Result};

impl OnRedis for Ask {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<AskReply>> {
        let Self { asker, items } = self;
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let (mut workers, mut named) = (Targets::new(), Targets::new());
        let guess_of: Vec<_> = items.iter().map(|item| workers.number(item.guess)).collect();
        let token = |item: &AskItem| Some(item.ask.token).filter(|token| *token != Token(0));
        let token_of: Vec<_> = items.iter().map(|item| named.number(token(item))).collect();
        let keys = &store.steps.keys;
        let mut call = store.steps.scripts.ask.call(&workers.keys(|worker| keys.worker(*worker)));
        call.arg(inc.0).arg(asker.as_str()).arg(workers.iter().len()).arg(named.iter().len());
        call.arg(column(guess_of)?).arg(column(token_of)?);
        call.args(workers.iter().map(|worker| worker.0)).args(named.iter().map(|token| token.0));
        call.args(items.iter().map(|item| item.key.as_bytes()));
        call.args(items.iter().map(|item| item.ask.head())).args(items.iter().map(|item| &*item.ask.body));
        store.steps.run("ask", call).await?.ok()?.letters(items.len(), "asks' answers")
    }
}

impl OnRedis for Reply {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<ReplyReply>> {
        let &Self { worker, ref finished, ref items } = self;
        let mut askers = Targets::new();
        let asker_of: Vec<_> = items.iter().map(|item| askers.number(Some(&item.asker))).collect();
        let mut streams = vec![store.steps.keys.worker(worker)];
        streams.extend(askers.keys(|node| store.steps.keys.node_of(node)));
        let mut call = store.steps.scripts.reply.call(&streams);
        owner(&mut call, inc, worker, finished);
        tokens(&mut call, items.iter().map(|item| item.token))?;
        call.arg(column(asker_of)?).args(items.iter().map(|item| item.key.as_bytes()));
        call.args(items.iter().map(|item| item.id.to_string()));
        call.args(items.iter().map(|item| item.said.encode().to_vec()));
        store.steps.run("reply", call).await?.ok()?.letters(items.len(), "replies' answers")
    }
}
