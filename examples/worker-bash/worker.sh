#!/usr/bin/env bash
# Runs jobs {"call": NAME} by a command, one at a time: worker.sh NAME COMMAND... README.md says what it leaves open.
now() { local up _; read -r up _ </proc/uptime; echo "${up/./}0"; } # milliseconds since boot, which nobody sets
if [ "$1" = --run ]; then # in a session of its own, beside a guard that kills it when the lease is over, or the worker
  dir=$2; shift 2; (trap '' TERM; while [ "$(now)" -lt "$(cat "$dir/kill_at")" ]; do sleep 0.1; done; kill -KILL 0) 2>/dev/null &
  while IFS= read -r line; do export "${line?}"; done < <(jq -r '.env + {RAFTSCHED_PARAMS: (.params | tojson)} | to_entries[] | "\(.key)=\(.value)"' "$dir/run")
  [ "$(now)" -lt "$(cat "$dir/kill_at")" ] && exec timeout -k "$(jq '.grace_ms / 1000 + 0.1' "$dir/run")" "$(jq '.timeout_ms / 1000' "$dir/run")" "$@"
fi
IFS=, read -ra servers <<<"${RAFTSCHED_SERVERS:?has to name the nodes: URLs with commas between them}"
name=${RAFTSCHED_WORKER:-$(hostname)} me=$(</proc/sys/kernel/random/uuid) call=$1 stop='' pid='' dir=$(mktemp -d); shift; trap 'stop=1' TERM INT; trap 'rm -rf "$dir"' EXIT
ask() { # PATH, the session whose request it is, and JSON as input: $sent, $status, $dir/answer. A node that does not answer has its next turn last.
  sent=$(now); status=$(curl -s -m "${most:-4}" -o "$dir/answer" -w '%{http_code}' -H 'Content-Type: application/json' \
    ${RAFTSCHED_TOKEN:+-H @<(echo "Authorization: Bearer $RAFTSCHED_TOKEN")} ${2:+-H @<(echo "Raftsched-Session-Secret: $2")} --data-binary @- "${servers[0]}$1")
  case $status in 2*) return 0 ;; 4*) cat "$dir/answer" >&2; sleep 0.5 ;; *) servers=("${servers[@]:1}" "${servers[0]}"); sleep 0.2 ;; esac; return 1
}
renew() { local at; at=$((sent + $(jq .lease_ms "$dir/answer") - k)); kill_at=$((at > kill_at ? at : kill_at)); echo $kill_at >"$dir/new"; mv "$dir/new" "$dir/kill_at"; }
report() { jq -nc --slurpfile run "$dir/run" "${@:2}" "[{token: \$run[0].token} + $1]" >"$dir/reports"; }
refused() { # WHY no node takes the report: the run has failed by that. What says no end, or says this, is left out.
  jq -c --arg why "Its report was refused: $1" '[.[] | select(.outcome and (.error // "" | startswith("Its report was refused: ") | not)) | {token, outcome: "failed", error: $why[:1000]}]' "$dir/reports" >"$dir/new" && mv "$dir/new" "$dir/reports"
}
end() { kill -KILL "-$pid" 2>/dev/null; wait "$pid"; code=$?; for _ in {1..20}; do kill -KILL "-$pid" || break; sleep 0.1; done; pid=''; } 2>/dev/null
while [ -z "$stop" ]; do
  ask /v1/worker-sessions < <(jq -nc --arg n "$name" --arg c "call:$call" --arg me "$me" --argjson at "$(now)" '{name: $n, handlers: [$c], incarnation: $me, opening: $at, version: "worker-bash/2"}') || continue
  { read -r id; read -r k; read -r wait; read -r most; } < <(jq -r '.session, .kill_before_ms, .poll_ms, .poll_ms * 0.0016' "$dir/answer")
  path=/v1/worker-sessions/${id%%-*} after=0 killing='' kill_at=0; renew; echo '[]' >"$dir/reports"
  while [ "$(now)" -lt "$kill_at" ]; do
    if [ -n "$pid" ] && ! kill -0 "$pid" 2>/dev/null; then
      end; report '{started_at_ms: $at, exit_code: (if $code < 126 then $code else null end), output: (reduce ($run[0].secrets[] | select(. != "")) as $s ($out; split($s) | join("***")))[:60000], outcome: (if $code == 0 then "succeeded" elif $killed != "" then "killed" elif $now - $began >= $run[0].timeout_ms then "timed_out" else "failed" end)}' \
        --argjson at "$at" --argjson code $code --arg killed "$killing" --argjson now "$(now)" --argjson began "$began" --rawfile out <(head -c 60000 "$dir/out"); killing=''
    elif [ -n "$stop" ] && [ -z "$pid" ] && [ "$(<"$dir/reports")" = '[]' ]; then
      until ask "$path/close" "$id" <<<'{}' || [ "$status" = 410 ] || [ "$(now)" -ge "$kill_at" ]; do :; done; exit
    fi
    ask "$path/poll" "$id" < <(jq -nc --slurpfile r "$dir/reports" "{after: $after, reports: \$r[0], killing: [$killing], wait_ms: $([ -n "$pid" ] && echo 200 || echo "$wait"), max_runs: $([ -n "$stop" ] && echo 0 || echo 1)}") || { case $status in 410) break ;; 400 | 413 | 422) refused "$(jq -r .detail "$dir/answer")" ;; esac; continue; }
    if [ "$(now)" -lt "$kill_at" ]; then renew; if why=$(jq -er 'first(.refused[] | select(.code == "invalid")).detail' "$dir/answer"); then refused "$why"; else echo '[]' >"$dir/reports"; fi; fi
    for sort in '[.refused[] | select(.code != "invalid").token]:KILL' .kill:TERM; do # what somebody else may have by now, and what is asked for
      [ -n "$pid" ] && jq -e "${sort%:*} | index($after)" "$dir/answer" >/dev/null && killing=$after && kill "-${sort#*:}" "-$pid"
    done
    [ -z "$pid" ] && [ "$(<"$dir/reports")" = '[]' ] && jq -ce ".runs[0] | select(.token > $after)" "$dir/answer" >"$dir/run" || continue
    after=$(jq .token "$dir/run") at=$(date +%s%3N) began=$(now)
    if jq -e .error "$dir/run" >/dev/null; then report '{outcome: "failed", error: $run[0].error}' # nobody can run it
    elif [ $((kill_at - began)) -lt "$k" ]; then report '{outcome: "not_begun"}' # less than twice K is left
    else setsid "$0" --run "$dir" "$@" >"$dir/out" 2>&1 </dev/null & pid=$!; report '{started_at_ms: $at}' --argjson at "$at"; fi
  done
  [ -z "$pid" ] || end # nothing is left of a session that is over
done
