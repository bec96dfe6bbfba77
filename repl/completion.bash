_finch() {
    local word=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=($(compgen -f -- "$word"))
    [ "$COMP_CWORD" = 1 ] && COMPREPLY+=($(compgen -W "@COMMANDS@ -e -i --version" -- "$word"))
}
complete -o filenames -F _finch finch
