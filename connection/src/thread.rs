//! Threads for the engines of nodes and their connections: no task of the user holds them up.
//!
//! Handlers run on their user's runtime. So a handler that blocks its thread delays other tasks on the same thread, and never
//! an engine. A node without handlers runs on its user's runtime: a call and its answer need not wake another thread.
//!
//! A process has at most as many engine threads as cores. Up to the number of cores each node has an own thread. Further nodes
//! share threads, because a thread of several nodes sleeps and wakes less often. So nothing on an engine thread may block.

use std::any::Any;
use std::io;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::task::{AbortHandle, JoinError};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// The engine threads of this process.
static ENGINES: Engines = Engines::new();

/// A place on a thread with a runtime, or on the runtime of the caller. [Spawned](Self::spawn) futures end with this handle,
/// or with a [driver](Self::drive). A thread ends with the last place, and drops the rest of the runtime.
#[derive(Debug)]
pub struct Thread {
    runtime: Handle,
    over: CancellationToken,
    end: DropGuard,
    /// `None` on the runtime of the caller.
    place: Option<Arc<Running>>,
}

/// A thread that runs until this is dropped.
#[derive(Debug)]
struct Running {
    runtime: Handle,
    _end: DropGuard,
}

impl Running {
    fn start(name: String) -> io::Result<Arc<Self>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let over = CancellationToken::new();
        let running = Self { runtime: runtime.handle().clone(), _end: over.clone().drop_guard() };
        std::thread::Builder::new().name(name).spawn(move || {
            runtime.block_on(over.cancelled());
            // A lookup of a host name may hang, so the thread does not wait for it.
            runtime.shutdown_background();
        })?;
        Ok(Arc::new(running))
    }
}

/// Threads that share their work: at each index the thread with the next number. The owners of a thread are its places, and
/// one without places has ended, or is about to end.
struct Engines(Mutex<Vec<Weak<Running>>>);

impl Engines {
    const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn place(&self, cores: usize) -> io::Result<Arc<Running>> {
        let mut threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let places: Vec<_> = threads.iter().map(Weak::strong_count).collect();
        let at = choose(&places, cores);
        // The last place of the chosen thread may end at this moment.
        if let Some(running) = threads.get(at).and_then(Weak::upgrade) {
            return Ok(running);
        }
        let running = Running::start(format!("engine {}", at + 1))?;
        let entry = Arc::downgrade(&running);
        match threads.get_mut(at) {
            Some(ended) => *ended = entry,
            None => threads.push(entry),
        }
        Ok(running)
    }
}

/// The index of the thread that gets the next place, by the numbers of places on each: one without places is started. The
/// index after the last is that of a further thread.
fn choose(places: &[usize], cores: usize) -> usize {
    let running = places.iter().enumerate().filter(|(_, places)| **places > 0);
    if running.clone().count() >= cores
        && let Some((fewest, _)) = running.min_by_key(|(_, places)| **places)
    {
        return fewest;
    }
    places.iter().position(|places| *places == 0).unwrap_or(places.len())
}

impl Thread {
    /// The present runtime in place of a thread.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn here() -> Self {
        Self::of(Handle::current(), None)
    }

    /// A place on an engine thread of the process: on a new thread while there are fewer threads than cores, otherwise on the
    /// thread with the fewest places.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub fn shared() -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        ENGINES.place(cores).map(Self::on)
    }

    /// Starts a thread of this name, which nobody shares.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub fn own(name: String) -> io::Result<Self> {
        Running::start(name).map(Self::on)
    }

    fn on(running: Arc<Running>) -> Self {
        Self::of(running.runtime.clone(), Some(running))
    }

    fn of(runtime: Handle, place: Option<Arc<Running>>) -> Self {
        let over = CancellationToken::new();
        Self { runtime, end: over.clone().drop_guard(), over, place }
    }

    /// Within this guard, tasks are spawned on the thread. On a shared thread such a task may outlive this handle.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Runs a future in the background. It ends with this handle, or with [`stop`](Self::stop).
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let over = self.over.clone();
        self.runtime.spawn(async move { over.run_until_cancelled_owned(work).await });
    }

    /// Ends all [spawned](Self::spawn) futures.
    pub fn stop(&self) {
        self.over.cancel();
    }

    /// Runs a future on the thread, and waits for it.
    ///
    /// # Errors
    /// The future has panicked.
    ///
    /// # Cancel safety
    /// A dropped call ends the future at its next await.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        AbortOnDropHandle::new(self.runtime.spawn(work)).await
    }

    /// Runs a driver on the thread, and gives the place up when the driver has ended. If the caller's runtime ends, the
    /// driver is aborted. `ended` gets the driver's panic, if there was one.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn drive(
        self,
        driver: impl Future<Output = ()> + Send + 'static,
        ended: impl FnOnce(Option<Box<dyn Any + Send>>) + Send + 'static,
    ) -> AbortHandle {
        let Self { runtime, end, place, .. } = self;
        let driver = runtime.spawn(async move {
            let _until_it_ends = (end, place);
            driver.await;
        });
        let abort = driver.abort_handle();
        let guest = Guest(abort.clone());
        tokio::spawn(async move {
            let _guest = guest;
            ended(driver.await.err().and_then(|error| error.try_into_panic().ok()));
        });
        abort
    }
}

/// Aborts a driver when the runtime of the caller ends, and drops the guest.
struct Guest(AbortHandle);

impl Drop for Guest {
    fn drop(&mut self) {
        // An abort of an ended driver has no effect.
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::future::pending;
    use std::sync::Barrier;
    use std::thread::{self, ThreadId};

    use tokio::sync::oneshot::{self, error::TryRecvError};

    use super::*;

    fn placed(engines: &Engines, cores: usize) -> Thread {
        Thread::on(engines.place(cores).unwrap())
    }

    async fn name_of(thread: &Thread) -> String {
        thread.run(async { thread::current().name().unwrap().to_owned() }).await.unwrap()
    }

    async fn id_of(thread: &Thread) -> ThreadId {
        thread.run(async { thread::current().id() }).await.unwrap()
    }

    /// Endless work, and a receiver that hears of the end.
    fn endless() -> (impl Future<Output = ()> + Send + 'static, oneshot::Receiver<()>) {
        let (held, end) = oneshot::channel::<()>();
        let work = async move {
            let _held = held;
            pending::<()>().await;
        };
        (work, end)
    }

    /// Whether the work has not ended.
    fn goes_on(end: &mut oneshot::Receiver<()>) -> bool {
        end.try_recv() == Err(TryRecvError::Empty)
    }

    /// Completes when the runtime of this thread has dropped all tasks.
    fn end_of(thread: &Thread) -> oneshot::Receiver<()> {
        let (work, end) = endless();
        drop(thread.runtime.spawn(work));
        end
    }

    #[test]
    fn a_process_has_no_more_engine_threads_than_cores() {
        for cores in 0..5 {
            let mut places = Vec::new();
            for nodes in 1..20 {
                let at = choose(&places, cores);
                if at == places.len() {
                    places.push(0);
                }
                places[at] += 1;
                assert_eq!(places.len(), nodes.min(cores.max(1)), "{cores} cores");
                let (most, fewest) = (places.iter().max(), places.iter().min());
                assert!(most.unwrap() - fewest.unwrap() <= 1, "{places:?}");
            }
        }
    }

    #[test]
    fn an_ended_thread_is_started_anew_before_any_is_shared() {
        assert_eq!(choose(&[2, 0, 1], 3), 1);
        assert_eq!(choose(&[0, 1], 3), 0);
        assert_eq!(choose(&[2, 1], 3), 2);
    }

    #[test]
    fn a_process_that_loses_cores_starts_no_further_thread() {
        assert_eq!(choose(&[2, 0, 1, 3], 2), 2);
    }

    #[tokio::test]
    async fn nodes_share_a_thread_when_each_core_has_one() {
        let engines = Engines::new();
        let threads = [(); 3].map(|()| placed(&engines, 2));
        let [first, second, third] = &threads;
        assert_eq!((name_of(first).await, name_of(second).await), ("engine 1".into(), "engine 2".into()));
        assert_eq!(id_of(first).await, id_of(third).await);
    }

    #[tokio::test]
    async fn a_thread_ends_with_its_last_node() {
        let engines = Engines::new();
        let (a, b) = (placed(&engines, 1), placed(&engines, 1));
        let mut end = end_of(&a);
        drop(a);
        assert_eq!(name_of(&b).await, "engine 1");
        assert!(goes_on(&mut end));
        drop(b);
        assert!(end.await.is_err());
    }

    #[tokio::test]
    async fn threads_that_have_ended_take_no_room() {
        let engines = Engines::new();
        for _ in 0..20 {
            let threads = [(); 5].map(|()| placed(&engines, 2));
            assert_eq!(name_of(&threads[4]).await, "engine 1");
        }
        assert_eq!(engines.0.lock().unwrap().len(), 2);
    }

    #[tokio::test]
    async fn the_last_place_may_be_given_up_on_its_own_thread() {
        let engines = Engines::new();
        let last = placed(&engines, 1);
        let (end, runtime) = (end_of(&last), last.runtime.clone());
        drop(runtime.spawn(async move { drop(last) }));
        assert!(end.await.is_err());
        assert_eq!(name_of(&placed(&engines, 1)).await, "engine 1");
    }

    #[test]
    fn a_node_that_starts_while_the_last_one_ends_has_a_thread() {
        const ROUNDS: usize = 500;
        let (engines, barrier) = (Engines::new(), Barrier::new(4));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let runtime = Builder::new_current_thread().build().unwrap();
                    for _ in 0..ROUNDS {
                        barrier.wait();
                        let place = placed(&engines, 2);
                        assert_eq!(runtime.block_on(place.run(async { 1 })).unwrap(), 1);
                    }
                });
            }
        });
        let threads = engines.0.into_inner().unwrap();
        assert!(threads.len() <= 2 && threads.iter().all(|thread| thread.strong_count() == 0));
    }

    #[tokio::test]
    async fn work_spawned_by_a_node_ends_with_that_node() {
        let engines = Engines::new();
        let (a, b) = (placed(&engines, 1), placed(&engines, 1));
        let ((of_a, a_ends), (of_b, mut b_ends)) = (endless(), endless());
        a.spawn(of_a);
        b.spawn(of_b);
        drop(a);
        assert!(a_ends.await.is_err());
        assert_eq!(name_of(&b).await, "engine 1");
        assert!(goes_on(&mut b_ends));
        b.stop();
        assert!(b_ends.await.is_err());
    }

    #[tokio::test]
    async fn work_spawned_beside_a_driver_ends_with_the_driver() {
        let engines = Engines::new();
        let (a, b) = (placed(&engines, 1), placed(&engines, 1));
        let (work, work_ends) = endless();
        a.spawn(work);
        let (go, gone) = oneshot::channel::<()>();
        let driver = async move { drop(gone.await) };
        a.drive(driver, |_| ());
        go.send(()).unwrap();
        assert!(work_ends.await.is_err());
        assert_eq!(name_of(&b).await, "engine 1");
    }

    #[tokio::test]
    async fn a_driver_keeps_its_thread_until_it_has_ended() {
        let engines = Engines::new();
        let thread = placed(&engines, 1);
        let end = end_of(&thread);
        let (go, gone) = oneshot::channel::<()>();
        let (tell, ended) = oneshot::channel();
        thread.drive(async move { drop(gone.await) }, move |panic| tell.send(panic.is_none()).unwrap());
        assert_eq!(name_of(&placed(&engines, 1)).await, "engine 1");
        assert_eq!(engines.0.lock().unwrap()[0].strong_count(), 1, "the driver has its place");
        go.send(()).unwrap();
        assert!(ended.await.unwrap());
        assert!(end.await.is_err());
    }

    #[tokio::test]
    async fn a_panic_of_one_driver_leaves_its_neighbours_running() {
        let engines = Engines::new();
        let [a, b, c] = [(); 3].map(|()| placed(&engines, 1));
        let id = id_of(&c).await;
        let (neighbour, mut neighbour_ends) = endless();
        b.drive(neighbour, |_| ());
        let (tell, ended) = oneshot::channel();
        a.drive(async { panic!("as it was told") }, move |panic| drop(tell.send(panic)));
        let panic = ended.await.unwrap().expect("the panic");
        assert_eq!(panic.downcast_ref(), Some(&"as it was told"));
        assert_eq!(id_of(&c).await, id);
        assert!(goes_on(&mut neighbour_ends));
    }

    #[tokio::test]
    async fn an_abort_of_one_driver_leaves_its_neighbours_running() {
        let engines = Engines::new();
        let [a, b, c] = [(); 3].map(|()| placed(&engines, 1));
        let ((driver, driver_ends), (neighbour, mut neighbour_ends)) = (endless(), endless());
        let abort = a.drive(driver, |_| ());
        b.drive(neighbour, |_| ());
        abort.abort();
        assert!(driver_ends.await.is_err());
        assert_eq!(name_of(&c).await, "engine 1");
        assert!(goes_on(&mut neighbour_ends));
    }

    #[test]
    fn drivers_end_with_the_runtime_of_their_user() {
        let engines = Engines::new();
        let (a, b) = (placed(&engines, 1), placed(&engines, 1));
        let (driver, driver_ends) = endless();
        let home = Builder::new_current_thread().build().unwrap();
        home.block_on(async { a.drive(driver, |_| ()) });
        drop(home);
        let home = Builder::new_current_thread().build().unwrap();
        assert!(home.block_on(driver_ends).is_err());
        assert_eq!(home.block_on(name_of(&b)), "engine 1");
    }

    #[tokio::test]
    async fn a_poisoned_list_of_threads_is_used_on() {
        let engines = Arc::new(Engines::new());
        let a = placed(&engines, 1);
        let poisoned = engines.clone();
        let panics = move || {
            let _held = poisoned.0.lock();
            panic!("as it was told");
        };
        assert!(thread::spawn(panics).join().is_err());
        assert_eq!(id_of(&placed(&engines, 1)).await, id_of(&a).await);
    }
}
