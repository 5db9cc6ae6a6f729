# As systemd keeps the agent's unit: started again three seconds after it has ended, for as long as the host is there.
number=0
while :; do
    number=$((number + 1))
    "$@" >>"$SHARED/agent.log" 2>&1 </dev/null &
    echo $! >"$SHARED/agent.pid"
    wait $!
    echo "$number ended with $?" >>"$SHARED/ends"
    sleep 3
done
