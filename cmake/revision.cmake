# cmake -DSOURCE=DIR -DOUT=FILE -P revision.cmake: FILE defines KT_REVISION, the commit of the sources, "" where they are no
# checkout. FILE is touched only where it changes.
set(revision "")
if(EXISTS ${SOURCE}/.git)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env GIT_OPTIONAL_LOCKS=0 git -C ${SOURCE} describe --always --abbrev=12 "--exclude=*"
        "--dirty= with changes" OUTPUT_VARIABLE revision ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT revision MATCHES "^[0-9a-f]+( with changes)?$")
        set(revision "")
    endif()
endif()
file(WRITE ${OUT}.new "#define KT_REVISION \"${revision}\"\n")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUT}.new ${OUT})
file(REMOVE ${OUT}.new)
