# Owns one private Redis server and its folder. The parent holds the write end of stdin and writes commands to it.
# The end of stdin means that the parent is gone, for any reason; then everything is removed.
#
#   $1      folder to make the private folder in
#   $2...   the server's command line, run in the private folder's data/
#
# Answers one line per command, after a first line with the private folder's path:
#   start   runs the server, answers its pid
#   kill    kills the server with SIGKILL, answers "killed" when it is gone

# The parent's Ctrl-C, hang-up or broken pipe must not prevent the clean-up.
trap '' HUP INT TERM PIPE

base=$1
shift
dir=$(mktemp -d "$base/tenure.XXXXXX") || exit 1
mkdir "$dir/data" && cd "$dir/data" || exit 1
echo "$dir"

pid=
stop() {
  if [ -n "$pid" ]; then
    # A stopped server forks no more saving children, so all of them die with it.
    kill -STOP "$pid" 2>/dev/null
    children=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
    # Unquoted: one word a child.
    kill -KILL "$pid" $children 2>/dev/null
    wait "$pid" 2>/dev/null
  fi
  pid=
}

while read -r command; do
  case $command in
    start)
      # Not in a session of its own: schedulers that give each session a fair share (Linux's autogroup) let a server
      # that is alone in one wait for seconds beside busy neighbours.
      "$@" </dev/null >>"$dir/log" 2>&1 &
      pid=$!
      echo "$pid"
      ;;
    kill)
      stop
      echo killed
      ;;
  esac
done

stop
cd /
rm -rf "$dir"
