//! Asks several servers, or several addresses of a server, the same question. The first answer counts.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::timeout;

use crate::{Class, Error};

/// The divisor of the time for an answer: a server has this part to itself before the client also asks the next server.
const PART: u32 = 4;

/// Asks the first server, and the next server whenever an answer is an error or late. Returns the first answer and the
/// number of the server, or the most telling error. Questions bound their own time, so a silent server takes no time
/// from the next server. `each` is the time of one question.
pub(crate) async fn first_answer<T>(
    questions: Vec<BoxFuture<'_, Result<T, Error>>>,
    each: Duration,
) -> Result<(usize, T), Error> {
    let mut why: Option<Error> = None;
    let mut rest = questions.into_iter().enumerate().peekable();
    let mut asked = FuturesUnordered::new();
    loop {
        if let Some((number, question)) = rest.next() {
            asked.push(question.map(move |answer| (number, answer)));
        }
        let next = asked.next();
        let next = match rest.peek() {
            Some(_) => match timeout(each / PART, next).await {
                Ok(next) => next,
                Err(_) => continue,
            },
            None => next.await,
        };
        match next {
            Some((number, Ok(answer))) => return Ok((number, answer)),
            Some((_, Err(error))) if why.as_ref().is_none_or(|why| weight(why) < weight(&error)) => {
                why = Some(error);
            }
            Some(_) => {}
            None => return Err(why.unwrap_or_else(Error::connect_timed_out)),
        }
    }
}

/// How much an error says. A fault that a person must mend says more than a server that is down, and silence says least.
fn weight(error: &Error) -> u8 {
    match error.class() {
        Class::Silent => 0,
        _ if error.is_transient() => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::future::pending;
    use tokio::time::{Instant, sleep};

    const EACH: Duration = Duration::from_secs(4);

    type Question = BoxFuture<'static, Result<&'static str, Error>>;

    fn after(seconds: u64, answer: Result<&'static str, Error>) -> Question {
        sleep(Duration::from_secs(seconds)).map(move |()| answer).boxed()
    }

    fn silent() -> Question {
        let nothing = timeout(EACH, pending::<()>());
        nothing.map(|_| Err(Error::connect_timed_out())).boxed()
    }

    fn auth() -> Error {
        Error::Auth(redis::RedisError::from(std::io::Error::other("no")))
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_server_costs_no_time_and_a_silent_one_only_a_part() {
        let start = Instant::now();
        let down = || after(0, Err(Error::connect_timed_out()));
        assert_eq!(first_answer(vec![down(), down(), after(0, Ok("c"))], EACH).await.unwrap(), (2, "c"));
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(first_answer(vec![silent(), after(0, Ok("b"))], EACH).await.unwrap(), (1, "b"));
        assert_eq!(start.elapsed(), EACH / PART);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_server_is_awaited_while_others_are_asked() {
        let answer = first_answer(vec![after(3, Ok("a")), silent(), silent()], EACH).await;
        assert_eq!(answer.unwrap(), (0, "a"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_of_many_servers_has_all_of_its_time() {
        let silent_ones = (0..9).map(|_| silent());
        let questions = silent_ones.chain([after(3, Ok("last"))]).collect();
        assert_eq!(first_answer(questions, EACH).await.unwrap(), (9, "last"));
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_answer_the_most_telling_error_comes_in_time() {
        let start = Instant::now();
        let refused = || Error::unreachable("refused");
        let questions = vec![after(0, Err(auth())), after(0, Err(refused())), silent()];
        assert!(matches!(first_answer(questions, EACH).await, Err(Error::Auth(_))));
        assert_eq!(start.elapsed(), EACH);
        let told = first_answer(vec![silent(), after(0, Err(refused())), silent()], EACH).await.unwrap_err();
        assert_eq!(told.class(), Class::Unreachable, "{told:?}");
        let nobody: Vec<Question> = Vec::new();
        assert!(matches!(first_answer(nobody, EACH).await, Err(Error::Unreachable(_))));
    }
}
