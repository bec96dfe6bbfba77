#compdef finch
_finch() {
    (( CURRENT == 2 )) && compadd -- @COMMANDS@ -e -i --version
    _files
}
compdef _finch finch
