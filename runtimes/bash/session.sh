# shellcheck shell=bash
# Executes what it is given on descriptor 5, and answers with an exit code (runtimes/README.md, "Sessions"). The shell's state stays from one piece to the next.
#
# A piece is eval'ed at the top of a script, as the lines of a job are. Where it ends the shell, by exit, set -e or an interrupt, the shell writes
# down its state and starts anew in its own process, where it reads that: nothing else in bash comes back from every depth.
#
# The control socket is descriptor 59, and 55 to 57 are what 0 to 2 were as the piece began. While it is executed bash keeps them as the
# first numbers from 10 that are free, which programs don't inherit.

# The script. All of it is one line, the first: that is where a piece's lines are counted from.
__glovebox_script='builtin eval "$1"; builtin eval "$__glovebox_begin"; while :; do builtin eval "$__glovebox_next"; builtin eval "$__glovebox_piece" 59>&- 55>&- 56>&- 57>&-; { __glovebox_code=$? __glovebox_set=$-; builtin set +aefnuvx; builtin eval "$__glovebox_done"; } >/dev/null 2>&1; done'
if [[ $BASH_EXECUTION_STRING ]]; then
  exec /bin/bash --norc --noprofile /dev/stdin "$BASH_EXECUTION_STRING" 58<&0 <<<"$__glovebox_script"
fi

builtin trap '' INT # what comes late
__glovebox_self=$1
# A process that bash has just forked runs the trap EXIT of its parent where a signal ends it at once.
__glovebox_ends='{ __glovebox_code=$? __glovebox_set=$-; builtin set +aefnuvx; } 2>/dev/null; [[ ${BASHPID:-$$} != "$$" ]] || builtin eval "$__glovebox_end"'
__glovebox_code='' __glovebox_set='' __glovebox_traps='' __glovebox_at_exit='' __glovebox_traps_exit=''

builtin read -r -N 100000 __glovebox_begin <<'TEXT'
  if [[ $2 ]]; then
    builtin read -r -N 1000000000 __glovebox_piece <&57
    builtin eval "$__glovebox_piece" 57<&- >/dev/null 2>&1
  else
    builtin set --
    exec 59<&5-
    builtin printf '\0 mask\0' >&59
  fi
  exec <&58-
  builtin trap "$__glovebox_ends" EXIT
  # The piece's processes stand still between two pieces. Where their parent ends then, the kernel sends this one a SIGHUP, too.
  builtin trap : HUP
TEXT

# Answers for the piece before, and makes ready the next.
builtin read -r -N 100000 __glovebox_next <<'TEXT'
  if [[ $__glovebox_code ]]; then
    # -1: the piece has kept its end from being seen.
    ((__glovebox_code >= 0)) && builtin printf '\0%s mask\0\0%s %d\0' "$__glovebox_token" "$__glovebox_token" "$__glovebox_code" >&59 || builtin kill -9 "$$"
  fi
  __glovebox_args=("$@")
  __glovebox_saved=()
  for ((__glovebox_n = 10; ${#__glovebox_saved[@]} < 4; __glovebox_n++)); do
    [[ -e /dev/fd/$__glovebox_n ]] || __glovebox_saved+=("$__glovebox_n")
  done
  __glovebox_pipes=''
  for __glovebox_n in 3 4 5 6 7 8 9; do
    [[ ! -p /dev/fd/$__glovebox_n ]] || __glovebox_pipes+=$__glovebox_n
  done
  if [[ -e /dev/fd/0 ]]; then exec 55<&0; else exec 55</dev/null; fi
  if [[ -e /dev/fd/1 ]]; then exec 56>&1; else exec 56>/dev/null; fi
  if [[ -e /dev/fd/2 ]]; then exec 57>&2; else exec 57>/dev/null; fi
  # Bash reads byte by byte, each with a call of the kernel. What is long is read by a program.
  IFS='' TMOUT='' builtin read -r -d '' -n 256 -u 59 __glovebox_piece || builtin kill -9 "$$"
  if ((${#__glovebox_piece} == 256)); then
    { __glovebox_rest=$(/usr/bin/head -z -n 1 <&59 && builtin printf x); } 2>/dev/null # as it warns of the NUL
    [[ $__glovebox_rest == *x ]] || builtin kill -9 "$$"
    __glovebox_piece+=${__glovebox_rest%x} __glovebox_rest=''
  fi
  __glovebox_token=${__glovebox_piece%%$'\n'*} __glovebox_piece=${__glovebox_piece#*$'\n'} __glovebox_code=-1
  [[ $__glovebox_token != anew-* ]] || RANDOM=$SRANDOM
  if [[ $__glovebox_piece == *trap*EXIT* ]] && ! builtin declare -F trap >/dev/null; then
    builtin eval "$__glovebox_trap"
    __glovebox_traps_exit=1
  fi
  builtin trap 'builtin trap : INT RTMAX; builtin exit 130' INT RTMAX # a second one would end what the shell does as it ends
  builtin printf '\0%s unmask 64\0' "$__glovebox_token" >&59
  if [[ $__glovebox_traps || $__glovebox_set == *[xv]* ]]; then # not before, or they would show what is done here
    __glovebox_traps+=$'\n'${__glovebox_set:+builtin set -$__glovebox_set}
    __glovebox_piece="builtin eval ${__glovebox_traps@Q}; $__glovebox_piece"
  else
    builtin eval "${__glovebox_set:+builtin set -$__glovebox_set}"
  fi
TEXT

# What sets the trap EXIT in a piece that may need it before it has ended. The shell's own stays.
builtin read -r -N 100000 __glovebox_trap <<'TEXT'
  trap() {
    if [[ $BASHPID != "$$" || $# -lt 2 || $1 == -[lp]* ]]; then
      builtin trap "$@"
      return
    fi
    [[ $1 != -- ]] || shift
    builtin local -a __glovebox_names
    builtin local __glovebox_name
    for __glovebox_name in "${@:2}"; do
      case ${__glovebox_name^^} in
      EXIT | SIGEXIT | 0) __glovebox_at_exit=${1#-} ;;
      *) __glovebox_names+=("$__glovebox_name") ;;
      esac
    done
    ((${#__glovebox_names[@]} == 0)) || builtin trap -- "$1" "${__glovebox_names[@]}"
  }
TEXT

# Nothing that a piece has set disturbs what is done between two.
builtin read -r -N 100000 __glovebox_keep <<'TEXT'
  builtin declare -g +x __glovebox_code __glovebox_set
  __glovebox_set=${__glovebox_set//[!aefuvx]/}
  if ((${#FUNCNAME[@]} == 0)); then # else those of the function
    __glovebox_traps=$(builtin trap -p EXIT HUP INT DEBUG ERR RETURN)
    __glovebox_traps=${__glovebox_traps/"trap -- ':' SIGHUP"}
    __glovebox_traps=${__glovebox_traps/"trap -- 'builtin trap : INT RTMAX; builtin exit 130' SIGINT"}
    ((__glovebox_code != 130)) || __glovebox_traps=${__glovebox_traps/"trap -- ':' SIGINT"}
    __glovebox_args=("$@")
  fi
  builtin trap '' INT RTMAX
  builtin trap - DEBUG ERR RETURN
  [[ ! $__glovebox_traps_exit ]] || builtin unset -f trap
  __glovebox_traps_exit=''
TEXT

# Comes after a piece.
builtin read -r -N 100000 __glovebox_done <<'TEXT'
  builtin eval "$__glovebox_keep"
  if [[ $__glovebox_traps == "trap -- '$__glovebox_ends' EXIT"* ]]; then
    __glovebox_traps=${__glovebox_traps#"trap -- '$__glovebox_ends' EXIT"}
  else # the piece has one of its own, or none
    __glovebox_at_exit=$(builtin trap -p EXIT)
    __glovebox_traps=${__glovebox_traps#"$__glovebox_at_exit"}
    __glovebox_at_exit=${__glovebox_at_exit#trap -- } __glovebox_at_exit=${__glovebox_at_exit% EXIT}
    builtin eval "__glovebox_at_exit=$__glovebox_at_exit"
    builtin trap "$__glovebox_ends" EXIT
  fi
  [[ $__glovebox_traps =~ [^[:space:]] ]] || __glovebox_traps=''
  builtin trap : HUP
TEXT

# What the shell does as it ends: in any function, and with any redirection.
builtin read -r -N 100000 __glovebox_end <<'TEXT'
  builtin eval "$__glovebox_keep"
  if [[ -S /dev/fd/${__glovebox_saved[0]} ]]; then
    # A copy of a descriptor that programs don't inherit is no such one itself only as 0 to 2.
    exec <&"${__glovebox_saved[0]}" 59<&0 <&"${__glovebox_saved[1]}" >&"${__glovebox_saved[2]}" 2>&"${__glovebox_saved[3]}"
  elif [[ -S /dev/fd/59 ]]; then
    exec <&55 >&56 2>&57
  else
    builtin kill -9 "$$"
  fi
  # Where a trap ends the shell as it reads a command substitution, bash leaves the pipe open, and SIGINT blocked: for the shell that follows, too, and
  # for all that it starts.
  if ((__glovebox_code == 130)); then
    for __glovebox_n in 3 4 5 6 7 8 9; do
      [[ $__glovebox_pipes == *$__glovebox_n* || ! -p /dev/fd/$__glovebox_n ]] || exec {__glovebox_n}<&-
    done
  fi
  __glovebox_unblock=(/usr/bin/env --default-signal=INT)
  builtin trap '__glovebox_unblock=()' INT
  builtin kill -INT "$$"
  builtin trap '' INT
  if [[ $__glovebox_at_exit ]]; then
    (
      builtin trap - INT RTMAX EXIT
      __glovebox_status "$__glovebox_code"
      builtin eval "$__glovebox_at_exit"
      builtin exit "$__glovebox_code"
    )
    __glovebox_code=$? __glovebox_at_exit=''
  fi
  # An interrupt would end the bash that begins, before it has read its first line.
  builtin printf '\0%s mask\0' "$__glovebox_token" >&59
  ((${#FUNCNAME[@]} == 0)) || __glovebox_leave_functions 2>/dev/null
  __glovebox_piece=$(__glovebox_state 2>/dev/null)
  for ((__glovebox_n = 1; __glovebox_n < 65; __glovebox_n++)); do builtin trap - "$__glovebox_n"; done
  exec -c -a bash "${__glovebox_unblock[@]}" /bin/bash --norc --noprofile /dev/stdin "$__glovebox_self" again 58<&0 57<<<"$__glovebox_piece" <<<"$__glovebox_script"
TEXT

__glovebox_status() { builtin return "$1"; }

# Uncovers the global variables that functions have local ones of the same name for. An attribute that only global ones are given tells them
# apart, and unset takes away the variable of a function that is further out.
__glovebox_leave_functions() {
  builtin local __glovebox_names __glovebox_name __glovebox_are __glovebox_depth
  for ((__glovebox_depth = 0; __glovebox_depth < ${#FUNCNAME[@]}; __glovebox_depth++)); do
    # A line "declare -ATTRIBUTES NAME=VALUE" each. What is long and the interpreter's own is left out.
    __glovebox_names=$(builtin unset -v "${!__glovebox_@}"; builtin declare -p)
    while [[ $__glovebox_names ]]; do
      __glovebox_name=${__glovebox_names%%$'\n'*}
      __glovebox_names=${__glovebox_names:${#__glovebox_name}+1}
      __glovebox_are=${__glovebox_name#* } __glovebox_name=${__glovebox_are#* }
      __glovebox_are=${__glovebox_are%% *} __glovebox_name=${__glovebox_name%%=*}
      case $__glovebox_depth:$__glovebox_name:$__glovebox_are in
      *:FUNCNAME:* | *:__glovebox_*:* | *:-*[tn]*) ;;
      0:*) builtin declare -gt "$__glovebox_name" ;;
      *) builtin unset -v "$__glovebox_name" ;;
      esac
    done
  done
}

# Writes what another bash has to execute to have the state of this one. It is called in a subshell.
__glovebox_state() {
  builtin declare -p IFS
  IFS=$' \n'
  # shellcheck disable=SC2154 # it is set
  builtin printf 'builtin set -- %s\n' "${__glovebox_args[*]@Q}"
  for __glovebox_name in $(builtin compgen -v); do
    case $__glovebox_name in
    BASHOPTS | BASHPID | BASH_ALIASES | BASH_ARG[CV] | BASH_CMDS | BASH_COMMAND | BASH_EXECUTION_STRING | BASH_LINENO | BASH_SOURCE | BASH_SUBSHELL | BASH_VERSINFO) ;;
    COMP_WORDBREAKS | DIRSTACK | EPOCH* | EUID | FUNCNAME | GROUPS | HISTCMD | IFS | LINENO | PIPESTATUS | PPID | RANDOM | SHELLOPTS | SRANDOM | UID | _) ;;
    __glovebox_at_exit | __glovebox_code | __glovebox_set | __glovebox_token | __glovebox_traps) builtin declare -p "$__glovebox_name" ;;
    __glovebox_*) ;;
    *)
      builtin declare -p "$__glovebox_name"
      builtin printf 'builtin declare +t %s\n' "$__glovebox_name"
      ;;
    esac
  done
  for ((__glovebox_name = ${#DIRSTACK[@]} - 1; __glovebox_name > 0; __glovebox_name--)); do
    builtin printf 'builtin pushd -n %q\n' "${DIRSTACK[__glovebox_name]}"
  done
  builtin declare -f
  builtin declare -F
  builtin alias -p
  builtin trap -p
  builtin shopt -p
  builtin set +o
}
