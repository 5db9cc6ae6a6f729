# Completion of landfall in bash. The program itself says what fits.
_landfall() {
    local answer program=${1/#\~/$HOME}
    COMPREPLY=()
    mapfile -t answer < <(command "$program" complete bash "$2" "${COMP_LINE:0:COMP_POINT}" 2> /dev/null)
    # What bash completes by itself where nothing else fits.
    case ${answer[0]-} in
        files) compopt -o default ;;
        directories) compopt -o dirnames ;;
    esac
    COMPREPLY=("${answer[@]:1}")
}
complete -o nosort -F _landfall landfall
