#!/bin/sh
# fmail guard: refuses a commit on paths that another agent has reserved for itself alone.
# Written by `fmail guard install`; `fmail guard uninstall` takes it away. The hook that was here before, if there was one,
# is pre-commit.before-fmail beside this file. It runs first, and what it refuses is refused.

before=${0%/*}/pre-commit.before-fmail
if [ -x "$before" ]; then
    IFS= read -r first <"$before" || :
    shell=${first%% -*}
    case $first,${shell##*[/ ]} in
    '#!'*,sh | '#!'*,bash | '#!'*,dash | '#!'*,ash | '#!'*,ksh | '#!'*,zsh)
        # Many shell hooks find their parts by their own name, so this one keeps the name that git knows it by.
        ${first#??} -c '. "${0%/*}/pre-commit.before-fmail"' "$0" "$@" || exit
        ;;
    *) "$before" "$@" || exit ;;
    esac
fi

if ! command -v fmail >/dev/null 2>&1; then
    echo "fmail guard: fmail is not on the PATH, so that this commit was not compared with reservations" >&2
    exit 0
fi
fmail guard check
code=$?
case $code in
0) exit 0 ;;
8) exit 1 ;;
esac
echo "fmail guard: whether others have reserved these paths is not known (exit code $code), so the commit is refused;" >&2
echo "  help: 'git commit --no-verify' commits all the same, 'fmail guard uninstall' takes the guard away" >&2
exit 1
