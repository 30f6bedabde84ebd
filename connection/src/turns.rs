//! Asks several servers the same question: the first answer counts.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::timeout;

use crate::Error;

/// The divisor of the whole time: a server has this part to itself before the next one is asked as well.
const PART: u32 = 4;

/// Asks the first server, then the next one whenever an answer is an error or late. Returns the first answer and the
/// number of its server, or the error that says most, within `allowed`.
pub(crate) async fn first_answer<T>(
    questions: Vec<BoxFuture<'_, Result<T, Error>>>,
    allowed: Duration,
) -> Result<(usize, T), Error> {
    let mut why: Option<Error> = None;
    let answer = async {
        let mut rest = questions.into_iter().enumerate().peekable();
        let mut asked = FuturesUnordered::new();
        loop {
            if let Some((number, question)) = rest.next() {
                asked.push(question.map(move |answer| (number, answer)));
            }
            let next = asked.next();
            let next = match rest.peek() {
                Some(_) => match timeout(allowed / PART, next).await {
                    Ok(next) => next,
                    Err(_) => continue,
                },
                None => next.await,
            };
            match next {
                Some((number, Ok(answer))) => return Some((number, answer)),
                // A fault that a person must mend says more than a server that is down.
                Some((_, Err(error))) if why.as_ref().is_none_or(Error::is_transient) => why = Some(error),
                Some(_) => {}
                None => return None,
            }
        }
    };
    match timeout(allowed, answer).await {
        Ok(Some(answer)) => Ok(answer),
        _ => Err(why.unwrap_or_else(Error::connect_timed_out)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures::future::pending;
    use tokio::time::{Instant, sleep};

    const ALLOWED: Duration = Duration::from_secs(4);

    type Question = BoxFuture<'static, Result<&'static str, Error>>;

    fn after(seconds: u64, answer: Result<&'static str, Error>) -> Question {
        sleep(Duration::from_secs(seconds)).map(move |()| answer).boxed()
    }

    fn auth() -> Error {
        Error::Auth(redis::RedisError::from(std::io::Error::other("no")))
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_server_costs_no_time_and_a_silent_one_only_a_part() {
        let start = Instant::now();
        let down = || after(0, Err(Error::connect_timed_out()));
        assert_eq!(first_answer(vec![down(), down(), after(0, Ok("c"))], ALLOWED).await.unwrap(), (2, "c"));
        assert_eq!(start.elapsed(), Duration::ZERO);
        let silent = pending().boxed();
        assert_eq!(first_answer(vec![silent, after(0, Ok("b"))], ALLOWED).await.unwrap(), (1, "b"));
        assert_eq!(start.elapsed(), ALLOWED / PART);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_server_is_awaited_while_others_are_asked() {
        let silent = || pending().boxed();
        let answer = first_answer(vec![after(3, Ok("a")), silent(), silent()], ALLOWED).await;
        assert_eq!(answer.unwrap(), (0, "a"));
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_answer_the_most_telling_error_comes_in_time() {
        let start = Instant::now();
        let questions =
            vec![after(0, Err(auth())), after(0, Err(Error::connect_timed_out())), pending().boxed()];
        assert!(matches!(first_answer(questions, ALLOWED).await, Err(Error::Auth(_))));
        assert_eq!(start.elapsed(), ALLOWED);
        let nobody: Vec<Question> = Vec::new();
        assert!(matches!(first_answer(nobody, ALLOWED).await, Err(Error::Unreachable(_))));
    }
}
