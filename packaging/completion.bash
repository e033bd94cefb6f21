# Bash completion for cove: verbs, their flags, names of boxes, images, workspaces and secrets, ids.
# Flags come from `cove help VERB`, so this file never falls behind the program.

_cove_flags()
{
	cove help "$1" 2>/dev/null | sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p'
}

# The flags of a verb that take a value, in both spellings: help names the value one space further.
_cove_value_flags()
{
	cove help "$1" 2>/dev/null |
		sed -n 's/^  \(-., \|    \)\(--[a-z-]*\) [A-Za-z].*/\1 \2/p' | tr -d ,
}

# Word number $1 after the verb that is neither flag nor a flag's value, counting from 0; empty if
# there is none.
_cove_arg()
{
	local i n=0 takes=" $(_cove_value_flags "${COMP_WORDS[1]}" | xargs) "
	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-*)
			[[ $takes == *" ${COMP_WORDS[i]} "* ]] && ((i++))
			# Readline takes --flag=value apart.
			[[ ${COMP_WORDS[i + 1]} == = ]] && ((i += 2))
			continue
			;;
		esac
		((n++ == $1)) && printf '%s' "${COMP_WORDS[i]}" && return
	done
}

# Presets, and one with the groups that may follow it: "balanced,conda". A comma does not end a word.
_cove_policies()
{
	case $cur in
	*,*) _cove_words "$(cove policy groups -q 2>/dev/null | sed "s/^/${cur%,*},/")" ;;
	*) _cove_words 'closed balanced open' ;;
	esac
}

_cove_words()
{
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_cove()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} i
	COMPREPLY=()

	if ((COMP_CWORD == 1)); then
		_cove_words "$(cove help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p' | grep -vx cove)"
		return
	fi
	# After -- or in the command of run it is the box's business; its files are not here.
	for ((i = 2; i < COMP_CWORD; i++)); do
		[[ ${COMP_WORDS[i]} == -- ]] && return
	done
	case $prev in
	--image) _cove_words "$(cove image ls -q 2>/dev/null)"; return ;;
	--workspace)
		_cove_words "$(cove workspace ls -q 2>/dev/null)"
		mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	--log-file | --mount | --in | --config | --tls-cert | --tls-key | --otlp-headers) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
	--persistence) _cove_words 'workspace box'; return ;;
	--net)
		_cove_policies
		mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	--for | --since) _cove_words '10m 1h 1d'; return ;;
	--before) _cove_words '7d 30d 90d'; return ;;
	--address) _cove_words '127.0.0.1 ::1'; return ;;
	--file) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
	--expire) _cove_words 'stop remove pause'; return ;;
	--restart) _cove_words 'no on-reboot always'; return ;;
	--storage) _cove_words 'plain loop tmpfs'; return ;;
	--min-wall) _cove_words "$(cove wall ls -q 2>/dev/null)"; return ;;
	--wall) _cove_words "auto $(cove wall ls -q 2>/dev/null)"; return ;;
	--mem) _cove_words '256M 512M 1G 2G 4G none'; return ;;
	--disk) _cove_words '1G 10G 100G none'; return ;;
	--cpus) _cove_words '0.5 1 2 4 none'; return ;;
	--pids | --files | --io | --ttl | --idle | --net-bytes | --net-conns) _cove_words none; return ;;
	-s | --signal) _cove_words 'HUP INT QUIT KILL USR1 USR2 TERM CONT STOP'; return ;;
	--exec) _cove_words "$(cove ps -q "$(_cove_arg 0)" 2>/dev/null)"; return ;;
	esac
	if [[ $cur == -* ]]; then
		_cove_words "$(_cove_flags "$verb")"
		return
	fi
	case $verb in
	inspect | diff | merge | stats | pause | resume | set | stop | start | rm) _cove_words "$(cove ls -q 2>/dev/null)" ;;
	snapshot)
		case $(_cove_arg 0),$(_cove_arg 1) in
		,*) _cove_words 'create ls inspect rm tag prune' ;;
		create, | ls, | prune,) _cove_words "$(cove ls -q 2>/dev/null)" ;;
		inspect, | rm,* | tag,) _cove_words "$(cove snapshot ls -q 2>/dev/null)" ;;
		esac
		;;
	key)
		case $(_cove_arg 0),$(_cove_arg 1) in
		,*) _cove_words 'create ls inspect rm' ;;
		inspect,* | rm,*) _cove_words "$(cove key ls -q 2>/dev/null)" ;;
		esac
		;;
	rollback)
		if [[ -z $(_cove_arg 0) ]]; then
			_cove_words "$(cove ls -q 2>/dev/null)"
		else
			_cove_words "$(cove snapshot ls -q 2>/dev/null)"
		fi
		;;
	fork) _cove_words "$(cove ls -q 2>/dev/null) $(cove snapshot ls -q 2>/dev/null)" ;;
	exec | sh | shell | ps | logs | allow | deny | asks | port | ports)
		[[ -z $(_cove_arg 0) ]] && _cove_words "$(cove ls -q 2>/dev/null)"
		;;
	shells)
		case $(_cove_arg 0),$(_cove_arg 1) in
		,*) _cove_words 'ls rm' ;;
		*,) _cove_words "$(cove ls -q 2>/dev/null)" ;;
		rm,*) _cove_words "$(cove shells ls -q "$(_cove_arg 1)" 2>/dev/null)" ;;
		esac
		;;
	attach | wait | kill)
		if [[ -z $(_cove_arg 0) ]]; then
			_cove_words "$(cove ls -q 2>/dev/null)"
		else
			_cove_words "$(cove ps -q "$(_cove_arg 0)" 2>/dev/null)"
		fi
		;;
	cp)
		# A box name ends in a colon, so that the path can follow at once.
		_cove_words "$(cove ls -q 2>/dev/null | sed 's/$/:/')"
		mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
		compopt -o nospace -o filenames 2>/dev/null
		;;
	answer)
		case $(_cove_arg 0) in
		'') _cove_words "$(cove ls -q 2>/dev/null)" ;;
		*)
			if [[ -z $(_cove_arg 1) ]]; then
				_cove_words "$(cove asks --json "$(_cove_arg 0)" 2>/dev/null | sed -n 's/.*"id":\([0-9]*\).*/\1/p')"
			else
				_cove_words 'allow deny'
			fi
			;;
		esac
		;;
	sbx)
		case $(_cove_arg 0) in
		'') _cove_words 'version diagnose login daemon policy ls create exec stop rm' ;;
		daemon) _cove_words start ;;
		policy)
			case $(_cove_arg 1) in
			'') _cove_words set-default ;;
			*) _cove_words 'allow-all balanced deny-all' ;;
			esac
			;;
		create)
			if [[ -z $(_cove_arg 1) ]]; then
				_cove_words shell
			else
				mapfile -t COMPREPLY < <(compgen -d -- "$cur")
			fi
			;;
		exec) [[ -z $(_cove_arg 1) ]] && _cove_words "$(cove ls -q 2>/dev/null)" ;;
		stop | rm) _cove_words "$(cove ls -q 2>/dev/null)" ;;
		esac
		;;
	policy)
		case $(_cove_arg 0) in
		'') _cove_words 'check show groups suggest apply set-default' ;;
		suggest) [[ -z $(_cove_arg 1) ]] && _cove_words "$(cove ls -q 2>/dev/null)" ;;
		show) _cove_words "closed balanced open $(cove policy groups -q 2>/dev/null) $(cove ls -q 2>/dev/null)" ;;
		apply)
			if [[ -z $(_cove_arg 1) ]]; then
				_cove_words "$(cove ls -q 2>/dev/null)"
			else
				_cove_policies
				mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
			fi
			;;
		check) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		set-default)
			_cove_policies
			mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
			;;
		esac
		;;
	secret)
		case $(_cove_arg 0) in
		'') _cove_words 'set ls rm' ;;
		set | rm) _cove_words "$(cove secret ls -q 2>/dev/null)" ;;
		esac
		;;
	audit)
		case $(_cove_arg 0) in
		'') _cove_words "verify rm keep $(cove ls -q 2>/dev/null)" ;;
		verify | rm) _cove_words "$(cove ls -q 2>/dev/null)" ;;
		keep) _cove_words '30d 90d 365d forever' ;;
		esac
		;;
	workspace)
		case $(_cove_arg 0) in
		'') _cove_words 'ls rm chown' ;;
		rm) _cove_words "$(cove workspace ls -q 2>/dev/null)" ;;
		chown) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
		esac
		;;
	wall)
		case $(_cove_arg 0) in
		'') _cove_words 'ls add rm min' ;;
		add | rm) _cove_words "$(cove wall ls -q 2>/dev/null)" ;;
		min) _cove_words "any $(cove wall ls -q 2>/dev/null)" ;;
		esac
		;;
	image)
		case $(_cove_arg 0) in
		'') _cove_words 'ls build make import save export pull inspect history tag rm gc' ;;
		rm | inspect | history | tag | export) _cove_words "$(cove image ls -q 2>/dev/null | grep -vx host)" ;;
		import) [[ -n $(_cove_arg 1) ]] && mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		esac
		;;
	help) _cove_words "$(cove help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p' | grep -vx cove)" ;;
	esac
}

complete -F _cove cove
