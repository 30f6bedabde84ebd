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
    # setsid made the server a group of its own: this reaches its saving children too. The second kill is for
    # a server that has not formed its group yet.
    kill -KILL "-$pid" 2>/dev/null
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
  fi
  pid=
}

while read -r command; do
  case $command in
    start)
      setsid "$@" </dev/null >>"$dir/log" 2>&1 &
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
