/* Texts and binaries that the CUDA part carries: the words that the source of a
 * program is made with, each ended by a 0, and the kernels built ahead of time. See
 * kernels.h. */
#define TEXT(name) .global name; .hidden name; .balign 16; name:
#define BINARY(name) .global name; .hidden name; .balign 64; name:

  .section .rodata

TEXT(lode_text_prelude)
  .incbin "kernels/device.h"
  .incbin "kernels/prelude.h"
  .byte 0

TEXT(lode_text_random)
  .incbin "csrc/core/random.h"
  .byte 0

TEXT(lode_text_elementary)
  .incbin "csrc/core/elementary.h"
  .byte 0

TEXT(lode_text_templates)
  .incbin "csrc/core/moments.h"
  .incbin "kernels/templates.h"
  .byte 0

BINARY(lode_fatbin_programs)
  .incbin "programs.fatbin"

BINARY(lode_fatbin_matrix)
  .incbin "matrix.fatbin"

  .section .note.GNU-stack, "", %progbits
