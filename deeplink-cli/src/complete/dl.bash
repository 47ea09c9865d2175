# Completion of dl for bash: dl gets the words of the line, and answers with what may come next, a line each.
_clap_complete_dl() {
    local IFS=$'\n' line=${COMP_LINE:0:COMP_POINT} words=() at=-1 i word quoted= typed= prefix space=true candidate
    # Bash splits words at =, : and other characters. What has no blank in between belongs together.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        # Only the part before the cursor is completed.
        ((i == COMP_CWORD)) && word=${line#"${line%%[![:blank:]]*}"}
        if ((at >= 0)) && [[ -n $line && $line != [[:blank:]]* ]]; then
            words[at]=${words[at]}$word
        else
            words[++at]=$word
        fi
        line=${line#"${line%%[![:blank:]]*}"}
        line=${line#"$word"}
    done
    [[ ${words[at]} == *[\"\']* ]] && quoted=true
    words=("${words[@]//[\"\'\\]/}")
    # Bash replaces only the last of its own words, which is $2.
    typed=${2//[\"\'\\]/}
    [[ $typed == [=:] ]] && typed=
    prefix=${words[at]%"$typed"}
    compopt +o nospace 2>/dev/null && space=false
    COMPREPLY=()
    while IFS= read -r candidate || [[ -n $candidate ]]; do
        candidate=${candidate#"$prefix"}
        if [[ -z $quoted && $candidate == *[[:blank:]]* ]]; then
            printf -v candidate %q "$candidate"
        fi
        COMPREPLY+=("$candidate")
    done < <(
        _CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$at _CLAP_COMPLETE_COMP_TYPE=$COMP_TYPE _CLAP_COMPLETE_SPACE=$space \
            DL_COMPLETE=bash dl -- "${words[@]}" "${COMP_WORDS[@]:COMP_CWORD+1}" 2>/dev/null
    )
    if [[ $space == false && ${COMPREPLY-} == *[=/:] ]]; then
        compopt -o nospace
    fi
}
if ((BASH_VERSINFO[0] > 4 || BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 4)); then
    complete -o nospace -o bashdefault -o nosort -F _clap_complete_dl dl
else
    complete -o nospace -o bashdefault -F _clap_complete_dl dl
fi
