"""Questions about kentang itself. Every answer must be true of the program; wordings are held out."""

HOW = {"en": ["How do I {v}?", "How can I {v}?", "What is the command to {v}?", "Which command do I use to {v}?",
              "Show me how to {v}.", "I want to {v}.", "How to {v}", "Is there a command to {v}?", "Tell me how to {v}.",
              "What must I type to {v}?", "How do you {v}?", "Can I {v}?", "Can kentang {v}?", "how do i {v} with kentang"],
       "id": ["Bagaimana cara {v}?", "Bagaimana caranya {v}?", "Apa perintah untuk {v}?", "Perintah apa untuk {v}?",
              "Tunjukkan cara {v}.", "Aku ingin {v}.", "Cara {v}", "Bagaimana {v}?", "Gimana cara {v}?",
              "Apa yang harus kuketik untuk {v}?", "Bisakah aku {v}?", "Apakah kentang bisa {v}?", "Bagaimana saya bisa {v}?"]}

# (verb phrases, answer)
HOWTO_EN = [
    ("run a GGUF file|run a model|run a GGUF model|start a model|use a model file|load a GGUF file|run my own model|open a GGUF file|use a bigger model|run Qwen|run Llama|run another model|run inference|run kentang|use kentang|start kentang",
     "Use kentang run -m FILE -p \"your text\". FILE is the path of a GGUF file."),
    ("chat with a model|start a chat|have a conversation|talk to a model|chat|open a chat|chat on the terminal|use the chat mode|talk to the model",
     "Run kentang run -m FILE without -p on a terminal. You get a chat with history, line editing and /commands."),
    ("stop an answer|stop the answer|interrupt the model|cancel an answer|stop the model from talking|stop generation|interrupt it",
     "Press Ctrl-C. In a chat it stops the answer, not the program."),
    ("tokenize a text|turn text into tokens|see the tokens of a text|count tokens|get token ids|encode a text|convert text to tokens|split a text into tokens",
     "Use kentang tokenize with your model. It reads JSON lines on stdin and writes token ids as JSON lines on stdout."),
    ("detokenize tokens|turn tokens into text|decode token ids|get text from tokens|convert tokens to text|decode tokens|turn ids back into text",
     "Use kentang detokenize with your model. It reads lists of token ids as JSON lines and writes the texts."),
    ("see the logits|get logits|print the logits|look at the raw scores|read the logits of a model|dump the logits",
     "Use kentang logits with your model. It reads token ids as JSON lines and writes the logits after the last token."),
    ("generate greedily|use greedy decoding|get the greedy continuation|decode greedily|get the most likely tokens|always pick the most likely token",
     "Use kentang greedy with your model. It reads token ids as JSON lines and writes the greedy continuation."),
    ("render a chat template|see the prompt of a chat|apply the chat template|turn messages into a prompt|test a chat template|use a template",
     "Use kentang template. It reads messages as JSON and writes the prompt."),
    ("inspect a model|see what is in a GGUF file|look into a GGUF file|see the metadata of a model|list the tensors|show the tensors of a file|look at a model file|check a GGUF file|see the metadata",
     "Use kentang inspect FILE. Add --tensors to list the tensors and --json for JSON."),
    ("check my computer|see my processor|test my machine|see which instructions my processor has|find out why it is slow|measure my memory speed|check my hardware|diagnose my machine|see the kernel tier|see what my CPU can do",
     "Run kentang doctor. It shows the processor, the kernel tier and why, cores, memory and the measured read bandwidth."),
    ("make a test model|create a model with random weights|synthesize a model|generate a random model|get a model for a speed test|make a fake model|create a synthetic model|build a test file",
     "Use kentang synth --preset NAME --quant q4_k_m OUT. It writes a GGUF file with a real model's shape and random weights."),
    ("get help|see all options|see the help|list the commands|find the options|read the help|see the flags|get more help",
     "Add --help to any command, for example kentang run --help."),
    ("set the number of threads|use more threads|change the threads|limit the threads|use two threads|use all cores|choose the thread count",
     "Use -t N to set the number of threads, and -tb N for the threads of prompt processing."),
    ("limit the length of the answer|set the number of tokens|generate more tokens|make the answer shorter|change the maximum length|get longer answers|set the maximum number of tokens",
     "Use -n N. It sets how many tokens are generated at most."),
    ("change the context size|set the context|use a longer context|make the context bigger|set the context length|get a larger context",
     "Use -c N. It sets the context size in tokens."),
    ("change the temperature|make the answers more creative|set the temperature|get more random answers|make the output less random|control randomness|make it more creative",
     "Use --temp X. A low value is careful, a high value is more random, and 0 is greedy."),
    ("repeat a result|get the same answer again|set the seed|make the output repeatable|reproduce an answer|use a fixed seed|choose the seed",
     "Use --seed N. When the seed is random, kentang prints it, and the same seed repeats the run."),
    ("switch off the chat template|send a raw prompt|use no chat template|complete plain text|skip the template|continue a text|run without the template|use a base model",
     "Use --raw. Then your text goes to the model without the chat template."),
    ("get JSON output|print JSON|use kentang in a script|get the result as JSON|parse the output",
     "Add --json to kentang run or kentang inspect."),
    ("read the prompt from a file|use a prompt file|give a long prompt|pass a text file|load a prompt from a file",
     "Use kentang run -m FILE -f PROMPT. The file's text becomes the prompt."),
    ("give the prompt on stdin|pipe text into kentang|read from standard input|use a pipe|send text through a pipe",
     "Use a single dash: echo \"text\" | kentang run -m FILE -"),
    ("run on an old computer|use a slow computer|run on a weak machine|use little memory|run on a small machine|use the potato preset|run on an old laptop|use an old PC",
     "Use --preset potato. It takes 2 threads, a context of 2048 and batches of 1024 and 256."),
    ("use the whole machine|get the most speed|use the extreme preset|go as fast as possible|use all my cores|run on a big machine",
     "Use --preset extreme. It uses all cores and batches of 2048 and 512."),
    ("lock the model in memory|keep the model in RAM|avoid swapping|stop swapping|use mlock", "Use --mlock. It keeps the model's pages in memory."),
    ("turn off memory mapping|read the file without mmap|disable mmap|avoid mmap|use no memory map", "Use --no-mmap. Then the file is read into memory instead of being mapped."),
    ("use kentang in my program|embed kentang|use the library|call kentang from C|link libkentang|use kentang in C|use the C library|embed a model in my program",
     "Include kentang.h and link libkentang. The file examples/embed.c shows how, in under 60 lines."),
    ("build kentang|install kentang|compile kentang|try kentang|set up kentang|build the program|see the demo|run the demo",
     "Run ./scripts/demo. It installs what is missing, builds kentang and runs the demo model."),
    ("run the tests|test kentang|check the build|run the test suite|start the tests", "Run ./scripts/check. It sets everything up and runs the whole test suite."),
    ("choose the kernel tier|force AVX2|switch off AVX-512|use the reference kernels|set the instruction set|override the tier",
     "Set the environment variable KENTANG_ISA to ref, sse41, avx2 or avx512."),
    ("stretch the context with rope|use YaRN|set rope scaling|change the rope frequency|scale rope", "Use --rope-scaling with none, linear or yarn, and --rope-freq-base or --rope-freq-scale."),
    ("set the batch size|change the batch size|use smaller batches|choose the batch", "Use -b N for the batch and -ub N for the micro-batch."),
    ("serve a model|start a server|use the server|run a server|offer an API|get an OpenAI API|serve over HTTP|make a model server|start the API|use kentang as a server",
     "Use kentang serve -m FILE. It serves the model over HTTP and a Unix socket, for OpenAI, Anthropic and Ollama clients."),
    ("quantize a model|quantise a model|make a model smaller|get a 4-bit model|make a Q4_K_M file|shrink a model|make a GGUF file smaller|quantize a GGUF file|compress a model",
     "Use kentang quantize IN OUT q4_k_m. It writes a GGUF file with smaller weights."),
    ("convert a model|convert a Hugging Face model|turn safetensors into GGUF|make a GGUF file|use a Hugging Face folder|convert safetensors|get GGUF from a folder",
     "Use kentang convert FOLDER OUT. It turns a Hugging Face folder into a GGUF file."),
    ("measure the speed|benchmark a model|see how fast it is|run a benchmark|measure tokens per second|test the speed|run a speed test",
     "Use kentang bench -m FILE. It measures prompts and generation and compares them with the limits of your machine."),
    ("measure the quality|compare two models|get the perplexity|see which model is better|check the quality of a model|compute perplexity",
     "Use kentang perplexity -m FILE -f TEXT for one model, and kentang compare A B -f TEXT for two."),
    ("answer many prompts|process many requests|run a batch of prompts|answer a file of requests|work through a list of prompts",
     "Use kentang batch. It reads requests as JSON lines and answers each with a JSON line."),
]

HOWTO_ID = [
    ("menjalankan berkas GGUF|menjalankan model|menjalankan model GGUF|menjalankan file GGUF|memakai berkas model|memuat berkas GGUF|menjalankan modelku sendiri|membuka file GGUF|memakai model yang lebih besar|menjalankan Qwen|menjalankan Llama|menjalankan model lain|menjalankan kentang|memakai kentang|menggunakan kentang|menggunakan model",
     "Gunakan kentang run -m FILE -p \"teksmu\". FILE adalah lokasi berkas GGUF."),
    ("mengobrol dengan model|memulai obrolan|bercakap-cakap|mengobrol|membuka obrolan|chat dengan model|mengobrol di terminal|berbicara dengan model",
     "Jalankan kentang run -m FILE tanpa -p di terminal. Kamu mendapat obrolan dengan riwayat, penyuntingan baris, dan /perintah."),
    ("menghentikan jawaban|menyela model|membatalkan jawaban|menghentikan model|berhenti di tengah jawaban",
     "Tekan Ctrl-C. Dalam obrolan, itu menghentikan jawaban, bukan programnya."),
    ("melihat token sebuah teks|mengubah teks menjadi token|menghitung token|memecah teks menjadi token|mendapatkan nomor token|tokenisasi teks",
     "Gunakan kentang tokenize dengan modelmu. Ia membaca baris JSON dari stdin dan menulis nomor token ke stdout."),
    ("mengubah token menjadi teks|membaca nomor token|mengembalikan token ke teks|detokenisasi|mendapatkan teks dari token",
     "Gunakan kentang detokenize dengan modelmu. Ia membaca daftar nomor token sebagai baris JSON dan menulis teksnya."),
    ("melihat logits|mendapatkan logits|mencetak logits|melihat nilai mentah", "Gunakan kentang logits dengan modelmu. Ia membaca nomor token sebagai baris JSON dan menulis logits setelah token terakhir."),
    ("memakai greedy|mendapatkan lanjutan greedy|selalu memilih token terbaik|menghasilkan teks secara greedy", "Gunakan kentang greedy dengan modelmu. Ia membaca nomor token sebagai baris JSON dan menulis lanjutan greedy."),
    ("menerapkan templat obrolan|melihat prompt dari obrolan|mengubah pesan menjadi prompt|menguji templat|memakai templat", "Gunakan kentang template. Ia membaca pesan dalam JSON dan menulis prompt."),
    ("melihat isi berkas GGUF|memeriksa model|melihat metadata model|melihat daftar tensor|memeriksa berkas GGUF|melihat isi model|memeriksa file GGUF",
     "Gunakan kentang inspect FILE. Tambahkan --tensors untuk daftar tensor dan --json untuk JSON."),
    ("memeriksa komputerku|melihat prosesorku|memeriksa mesin|mengukur kecepatan memori|mengetahui kenapa lambat|memeriksa perangkat kerasku|memeriksa CPU",
     "Jalankan kentang doctor. Ia menunjukkan prosesor, tingkat kernel dan alasannya, inti, memori, dan kecepatan baca yang diukur."),
    ("membuat model uji|membuat model dengan bobot acak|membuat model tiruan|membuat model sintetis|mendapatkan model untuk uji kecepatan",
     "Gunakan kentang synth --preset NAMA --quant q4_k_m OUT. Ia menulis berkas GGUF dengan bentuk model asli dan bobot acak."),
    ("mendapat bantuan|melihat semua pilihan|melihat bantuan|melihat daftar perintah|membaca bantuan|melihat opsi", "Tambahkan --help pada perintah apa pun, misalnya kentang run --help."),
    ("mengatur jumlah thread|memakai lebih banyak thread|membatasi thread|memakai dua thread|memakai semua inti|mengubah jumlah thread",
     "Gunakan -t N untuk jumlah thread, dan -tb N untuk thread pemrosesan prompt."),
    ("membatasi panjang jawaban|mengatur jumlah token|menghasilkan lebih banyak token|membuat jawaban lebih pendek|mendapat jawaban lebih panjang",
     "Gunakan -n N. Itu mengatur jumlah token paling banyak yang dihasilkan."),
    ("mengubah ukuran konteks|mengatur konteks|memakai konteks lebih panjang|memperbesar konteks", "Gunakan -c N. Itu mengatur ukuran konteks dalam token."),
    ("mengubah suhu|membuat jawaban lebih kreatif|mengatur suhu|membuat hasil lebih acak|mengatur temperatur|mengurangi keacakan",
     "Gunakan --temp X. Nilai rendah lebih hati-hati, nilai tinggi lebih acak, dan 0 berarti greedy."),
    ("mengulang hasil|mendapat jawaban yang sama|mengatur seed|memakai seed tetap|membuat hasil bisa diulang", "Gunakan --seed N. Jika seed acak, kentang mencetaknya, dan seed yang sama mengulang hasilnya."),
    ("mematikan templat obrolan|mengirim prompt mentah|tanpa templat obrolan|melanjutkan teks biasa|melewati templat", "Gunakan --raw. Teksmu dikirim ke model tanpa templat obrolan."),
    ("mendapat keluaran JSON|mencetak JSON|memakai kentang dalam skrip|mendapat hasil dalam JSON", "Tambahkan --json pada kentang run atau kentang inspect."),
    ("membaca prompt dari berkas|memakai berkas prompt|memberi prompt panjang|memakai file teks", "Gunakan kentang run -m FILE -f PROMPT. Isi berkas itu menjadi prompt."),
    ("memberi prompt lewat stdin|memakai pipa|membaca dari masukan standar|mengirim teks lewat pipa", "Gunakan satu tanda hubung: echo \"teks\" | kentang run -m FILE -"),
    ("menjalankan di komputer tua|memakai komputer lambat|menjalankan di PC kentang|memakai sedikit memori|menjalankan di laptop lama|memakai preset potato",
     "Gunakan --preset potato. Ia memakai 2 thread, konteks 2048, dan batch 1024 dan 256."),
    ("memakai seluruh mesin|mendapat kecepatan tertinggi|memakai preset extreme|menjalankan secepat mungkin", "Gunakan --preset extreme. Ia memakai semua inti dan batch 2048 dan 512."),
    ("mengunci model di memori|menjaga model di RAM|menghindari swap|memakai mlock", "Gunakan --mlock. Halaman model tetap berada di memori."),
    ("mematikan pemetaan memori|membaca berkas tanpa mmap|mematikan mmap", "Gunakan --no-mmap. Berkas dibaca ke memori, tidak dipetakan."),
    ("memakai kentang dalam programku|menanam kentang dalam program|memakai pustaka kentang|memanggil kentang dari C|memakai libkentang",
     "Sertakan kentang.h dan tautkan libkentang. Berkas examples/embed.c menunjukkan caranya, kurang dari 60 baris."),
    ("membangun kentang|memasang kentang|mengompilasi kentang|mencoba kentang|menginstal kentang|menjalankan demo", "Jalankan ./scripts/demo. Ia memasang yang kurang, membangun kentang, dan menjalankan model demo."),
    ("menjalankan pengujian|menguji kentang|memeriksa hasil bangunan|menjalankan tes", "Jalankan ./scripts/check. Ia menyiapkan semuanya dan menjalankan semua pengujian."),
    ("memilih tingkat kernel|memaksa AVX2|mematikan AVX-512|mengatur set instruksi", "Atur variabel lingkungan KENTANG_ISA ke ref, sse41, avx2, atau avx512."),
    ("memperpanjang konteks dengan rope|memakai YaRN|mengatur skala rope", "Gunakan --rope-scaling dengan none, linear, atau yarn, dan --rope-freq-base atau --rope-freq-scale."),
    ("mengatur ukuran batch|mengubah ukuran batch|memakai batch lebih kecil", "Gunakan -b N untuk batch dan -ub N untuk micro-batch."),
    ("menjalankan server|memulai server|melayani model|membuat API|memakai server kentang|menyediakan API|melayani lewat HTTP",
     "Gunakan kentang serve -m FILE. Ia melayani model lewat HTTP dan soket Unix, untuk klien OpenAI, Anthropic, dan Ollama."),
    ("mengkuantisasi model|membuat model lebih kecil|mengecilkan model|membuat model 4 bit|kuantisasi model|membuat berkas Q4_K_M",
     "Gunakan kentang quantize IN OUT q4_k_m. Ia menulis berkas GGUF dengan bobot yang lebih kecil."),
    ("mengonversi model|mengubah safetensors menjadi GGUF|memakai folder Hugging Face|membuat berkas GGUF|mengubah folder menjadi GGUF",
     "Gunakan kentang convert FOLDER OUT. Ia mengubah folder Hugging Face menjadi berkas GGUF."),
    ("mengukur kecepatan|menguji kecepatan model|melihat token per detik|menjalankan uji kecepatan", "Gunakan kentang bench -m FILE. Ia mengukur prompt dan jawaban dan membandingkannya dengan batas mesinmu."),
    ("mengukur mutu model|membandingkan dua model|menghitung perplexity|memeriksa mutu model", "Gunakan kentang perplexity -m FILE -f TEXT untuk satu model, dan kentang compare A B -f TEXT untuk dua."),
    ("menjawab banyak prompt|memproses banyak permintaan|menjawab sebuah berkas permintaan", "Gunakan kentang batch. Ia membaca permintaan sebagai baris JSON dan menjawab masing-masing dengan satu baris JSON."),
]

# (flag or command, English, Indonesian)
TERMS = [
    ("-m", "-m FILE chooses the GGUF model file.", "-m FILE memilih berkas model GGUF."),
    ("-p", "-p TEXT gives the prompt.", "-p TEXT memberi prompt."),
    ("-f", "-f FILE reads the prompt from a file.", "-f FILE membaca prompt dari berkas."),
    ("-n", "-n N sets how many tokens are generated at most.", "-n N mengatur jumlah token paling banyak yang dihasilkan."),
    ("-c", "-c N sets the context size in tokens.", "-c N mengatur ukuran konteks dalam token."),
    ("-t", "-t N sets the number of threads.", "-t N mengatur jumlah thread."),
    ("-tb", "-tb N sets the number of threads for prompt processing.", "-tb N mengatur jumlah thread untuk pemrosesan prompt."),
    ("-b", "-b N sets the batch size.", "-b N mengatur ukuran batch."),
    ("-ub", "-ub N sets the micro-batch size.", "-ub N mengatur ukuran micro-batch."),
    ("--temp", "--temp X sets the temperature. A low value is careful, a high value is more random, and 0 is greedy.",
     "--temp X mengatur suhu. Nilai rendah lebih hati-hati, nilai tinggi lebih acak, dan 0 berarti greedy."),
    ("--seed", "--seed N sets the seed of the random numbers. The same seed repeats the run.", "--seed N mengatur seed bilangan acak. Seed yang sama mengulang hasilnya."),
    ("--raw", "--raw sends your text without the chat template.", "--raw mengirim teksmu tanpa templat obrolan."),
    ("--json", "--json writes the result as JSON.", "--json menulis hasil sebagai JSON."),
    ("--preset", "--preset chooses a set of options: potato for small machines, extreme for all cores.", "--preset memilih kumpulan opsi: potato untuk mesin kecil, extreme untuk semua inti."),
    ("--preset potato", "--preset potato takes 2 threads, a context of 2048 and batches of 1024 and 256.", "--preset potato memakai 2 thread, konteks 2048, dan batch 1024 dan 256."),
    ("--preset extreme", "--preset extreme uses all cores and batches of 2048 and 512.", "--preset extreme memakai semua inti dan batch 2048 dan 512."),
    ("--help", "--help shows the options of a command.", "--help menunjukkan opsi sebuah perintah."),
    ("--mlock", "--mlock keeps the model's pages in memory.", "--mlock menjaga halaman model tetap di memori."),
    ("--no-mmap", "--no-mmap reads the file into memory instead of mapping it.", "--no-mmap membaca berkas ke memori, tidak memetakannya."),
    ("--tensors", "--tensors lets kentang inspect list the tensors.", "--tensors membuat kentang inspect menampilkan daftar tensor."),
    ("--exact", "--exact computes with dequantised weights in f32. It is slow and precise.", "--exact menghitung dengan bobot f32 yang didekuantisasi. Lambat tetapi teliti."),
    ("--rope-scaling", "--rope-scaling chooses none, linear or yarn.", "--rope-scaling memilih none, linear, atau yarn."),
    ("run", "kentang run runs a model: kentang run -m FILE -p \"your text\". Without -p on a terminal it is a chat.",
     "kentang run menjalankan model: kentang run -m FILE -p \"teksmu\". Tanpa -p di terminal, itu menjadi obrolan."),
    ("tokenize", "kentang tokenize turns texts into token ids, as JSON lines.", "kentang tokenize mengubah teks menjadi nomor token, sebagai baris JSON."),
    ("detokenize", "kentang detokenize turns token ids back into texts, as JSON lines.", "kentang detokenize mengubah nomor token kembali menjadi teks, sebagai baris JSON."),
    ("logits", "kentang logits writes the logits after the last token of each line.", "kentang logits menulis logits setelah token terakhir dari setiap baris."),
    ("greedy", "kentang greedy writes the greedy continuation of each line of token ids.", "kentang greedy menulis lanjutan greedy dari setiap baris nomor token."),
    ("template", "kentang template turns messages in JSON into a prompt.", "kentang template mengubah pesan JSON menjadi prompt."),
    ("inspect", "kentang inspect FILE shows what is in a GGUF file. Add --tensors to list the tensors.", "kentang inspect FILE menunjukkan isi berkas GGUF. Tambahkan --tensors untuk daftar tensor."),
    ("doctor", "kentang doctor shows the processor, the kernel tier and why, cores, memory and the measured read bandwidth.",
     "kentang doctor menunjukkan prosesor, tingkat kernel dan alasannya, inti, memori, dan kecepatan baca yang diukur."),
    ("serve", "kentang serve serves models over HTTP and a Unix socket, for OpenAI, Anthropic and Ollama clients.", "kentang serve melayani model lewat HTTP dan soket Unix, untuk klien OpenAI, Anthropic, dan Ollama."),
    ("quantize", "kentang quantize IN OUT q4_k_m writes a GGUF file with smaller weights.", "kentang quantize IN OUT q4_k_m menulis berkas GGUF dengan bobot yang lebih kecil."),
    ("convert", "kentang convert FOLDER OUT turns a Hugging Face folder into a GGUF file.", "kentang convert FOLDER OUT mengubah folder Hugging Face menjadi berkas GGUF."),
    ("bench", "kentang bench measures prompts and generation and compares them with the limits of your machine.", "kentang bench mengukur prompt dan jawaban dan membandingkannya dengan batas mesinmu."),
    ("synth", "kentang synth writes a GGUF file with a real model's shape and random weights.", "kentang synth menulis berkas GGUF dengan bentuk model asli dan bobot acak."),
    ("KENTANG_ISA", "KENTANG_ISA chooses the kernel tier: ref, sse41, avx2 or avx512.", "KENTANG_ISA memilih tingkat kernel: ref, sse41, avx2, atau avx512."),
    ("scripts/demo", "./scripts/demo installs what is missing, builds kentang and runs the demo model.", "./scripts/demo memasang yang kurang, membangun kentang, dan menjalankan model demo."),
    ("scripts/check", "./scripts/check sets everything up and runs the whole test suite.", "./scripts/check menyiapkan semuanya dan menjalankan semua pengujian."),
]
TERM_ASK = {"en": ["What does {t} do?", "What is {t}?", "Explain {t}.", "What is {t} for?", "What does {t} mean?", "Tell me about {t}.", "How does {t} work?",
                   "When do I use {t}?", "{t}?", "What is the use of {t}?", "How do I use {t}?", "what does {t} do in kentang?"],
            "id": ["Apa fungsi {t}?", "Apa itu {t}?", "Jelaskan {t}.", "Untuk apa {t}?", "Apa arti {t}?", "Apa kegunaan {t}?", "{t} itu apa?",
                   "Kapan aku memakai {t}?", "{t}?", "Bagaimana cara memakai {t}?", "{t} untuk apa?"]}

PLAIN_EN = [
    ("What is kentang?|Tell me about kentang.|What is this program?|Explain kentang.|What does kentang do?|What is kentang for?|Describe kentang.|What is this?|what is kentang|What kind of program is kentang?|Can you tell me about kentang?|What can kentang do?",
     "kentang is a small C program that runs language models on ordinary computers, without a graphics card. It reads GGUF files."),
    ("What does the word kentang mean?|Why is it called kentang?|What does kentang mean?|Why the name kentang?|What is the meaning of kentang?|Why potato?",
     "Kentang is Indonesian for potato. A \"PC kentang\" is a slow, ordinary computer, and kentang is made for it."),
    ("What is GGUF?|What is a GGUF file?|Explain GGUF.|What does GGUF mean?|What is in a GGUF file?|What file format does kentang read?|Which file format do you use?|What is the GGUF format?",
     "GGUF is a file format for language models. One file holds the weights, the vocabulary and the settings, and kentang runs it directly."),
    ("Which models can kentang run?|What models are supported?|Which architectures are supported?|Does kentang support Llama?|Does kentang support Qwen?|Does kentang run Gemma?|What kind of models can I use?|Does it run Phi-3?|Does kentang support Mistral?",
     "kentang runs GGUF files of the Llama, Mistral, Qwen, Gemma, Phi-3, OLMo, Granite and SmolLM families, and some more."),
    ("Which quantisations are supported?|What types can kentang read?|Does kentang support Q4_K_M?|Which formats are supported?|Does it read Q8_0?|Which quantization types work?|Can it run Q4_0?",
     "kentang reads F32, F16, BF16, Q4_0 to Q8_0, Q2_K to Q6_K, IQ4_NL and IQ4_XS."),
    ("Do I need a GPU?|Does kentang use the GPU?|Is a graphics card needed?|Can it run without a GPU?|Does it need CUDA?|Do I need a graphics card?", "No. kentang runs on the processor, and no graphics card is needed."),
    ("Do I need Python?|Does kentang need Python?|Which dependencies does it have?|Is it written in Python?|What language is kentang written in?|In which language is kentang written?", "No Python is needed. kentang is written in C."),
    ("What is the license?|Is kentang free?|Is it open source?|Which license does kentang have?|Can I use kentang for free?|Is kentang open source?", "Yes, kentang is free and open source, under the MIT license."),
    ("Is the answer always the same?|Does the number of threads change the answer?|Are results reproducible?|Is kentang deterministic?|Do I get the same answer on another computer?|Will I get the same result?",
     "Yes. The same model, prompt, options and seed give the same answer, whatever the threads or the kernel tier."),
    ("What is a token?|Explain tokens.|What are tokens?|What does token mean?", "A token is a piece of text, often a word or a part of one. A model reads and writes tokens."),
    ("What is the temperature?|What does temperature mean?|Explain the temperature.|What is temperature in a language model?", "The temperature sets how random the answers are. Use --temp X: low is careful, high is more random, and 0 is greedy."),
    ("What is the context?|What is the context size?|What does context mean?|Explain the context.", "The context is how many tokens the model can see at once. Use -c N to set it."),
    ("Which presets are there?|What presets does kentang have?|What presets exist?|List the presets.|What is a preset?|Which presets can I use?", "There are two: potato for small machines and extreme for all cores. Use --preset NAME."),
    ("Which commands does kentang have?|What commands are there?|List the commands.|What are the commands of kentang?|Which subcommands exist?|Show me the commands.|What commands can I use?",
     "The daily commands are run, serve, batch, convert, quantize, inspect, doctor and bench. kentang --help lists all of them."),
    ("How fast is kentang?|Is kentang fast?|How many tokens per second?|Is it fast on my computer?|How fast is it on an old computer?", "That depends on your machine. kentang run prints tokens per second at the end, and kentang doctor measures your limits."),
    ("Where do I get models?|Where can I find GGUF files?|How do I get a model?|Where can I download a model?|Which model should I use?", "You can find many GGUF files on the web. A small one, such as Qwen2.5 0.5B or SmolLM2 135M, is a good start."),
    ("Does it run on Linux?|Does kentang run on Windows?|Does it work on Windows?|Which systems are supported?|Does kentang run on Debian?|Does it work on Ubuntu?|What system do I need?", "kentang is made for Linux, for example Debian 12 or Ubuntu."),
    ("Is kentang a vegetable?|Can I eat kentang?|Is kentang a potato?|Is kentang food?", "Kentang is Indonesian for potato, so yes. This one is a program that runs language models."),
]
PLAIN_ID = [
    ("Apa itu kentang?|Ceritakan tentang kentang.|Program apa ini?|Jelaskan kentang.|Apa fungsi kentang?|Untuk apa kentang?|apa itu kentang|Kentang itu apa?|Ini program apa?|Apa yang bisa dilakukan kentang?|Kentang itu program apa?",
     "kentang adalah program C kecil yang menjalankan model bahasa di komputer biasa, tanpa kartu grafis. Ia membaca berkas GGUF."),
    ("Mengapa namanya kentang?|Kenapa disebut kentang?|Apa arti kentang?|Apa arti nama kentang?|Kenapa kentang?|Mengapa kentang?",
     "\"PC kentang\" berarti komputer biasa yang lambat, dan kentang dibuat untuk komputer seperti itu."),
    ("Apa itu GGUF?|Apa itu berkas GGUF?|Jelaskan GGUF.|Apa isi berkas GGUF?|Format berkas apa yang dibaca kentang?|GGUF itu apa?|Apa itu file GGUF?|Apa itu format GGUF?",
     "GGUF adalah format berkas untuk model bahasa. Satu berkas berisi bobot, kosakata, dan pengaturan, dan kentang menjalankannya langsung."),
    ("Model apa yang bisa dijalankan kentang?|Model apa saja yang didukung?|Apakah kentang mendukung Llama?|Apakah kentang mendukung Qwen?|Arsitektur apa yang didukung?|Bisa menjalankan model apa?",
     "kentang menjalankan berkas GGUF dari keluarga Llama, Mistral, Qwen, Gemma, Phi-3, OLMo, Granite, SmolLM, dan beberapa lagi."),
    ("Kuantisasi apa yang didukung?|Apakah kentang membaca Q4_K_M?|Tipe apa yang bisa dibaca?|Format kuantisasi apa yang bisa dipakai?", "kentang membaca F32, F16, BF16, Q4_0 sampai Q8_0, Q2_K sampai Q6_K, IQ4_NL, dan IQ4_XS."),
    ("Apakah perlu GPU?|Apakah kentang memakai GPU?|Perlu kartu grafis?|Apakah aku butuh kartu grafis?|Bisa tanpa GPU?", "Tidak. kentang berjalan di prosesor, dan kartu grafis tidak diperlukan."),
    ("Apakah perlu Python?|Kentang ditulis dengan bahasa apa?|Apakah kentang butuh Python?|Bahasa pemrograman apa yang dipakai kentang?", "Python tidak diperlukan. kentang ditulis dalam C."),
    ("Apa lisensinya?|Apakah kentang gratis?|Apakah kentang sumber terbuka?|Apa lisensi kentang?|Apakah ini gratis?|Apakah kentang open source?", "Ya, kentang gratis dan sumber terbuka, dengan lisensi MIT."),
    ("Apakah jawabannya selalu sama?|Apakah jumlah thread mengubah jawaban?|Apakah hasilnya bisa diulang?|Apakah kentang deterministik?", "Ya. Model, prompt, opsi, dan seed yang sama memberi jawaban yang sama, berapa pun thread atau apa pun tingkat kernelnya."),
    ("Apa itu token?|Jelaskan token.|Token itu apa?|Apa arti token?", "Token adalah potongan teks, sering kali sebuah kata atau bagiannya. Model membaca dan menulis token."),
    ("Apa itu suhu?|Apa arti suhu dalam model bahasa?|Jelaskan suhu.|Apa itu temperatur?", "Suhu mengatur seberapa acak jawabannya. Gunakan --temp X: rendah hati-hati, tinggi lebih acak, dan 0 berarti greedy."),
    ("Apa itu konteks?|Apa arti konteks?|Jelaskan ukuran konteks.|Konteks itu apa?", "Konteks adalah jumlah token yang bisa dilihat model sekaligus. Gunakan -c N untuk mengaturnya."),
    ("Preset apa saja yang ada?|Apa saja preset kentang?|Apa itu preset?|Sebutkan preset.", "Ada dua: potato untuk mesin kecil dan extreme untuk semua inti. Gunakan --preset NAMA."),
    ("Perintah apa saja yang ada?|Apa saja perintah kentang?|Sebutkan perintah kentang.|Tunjukkan daftar perintah.|Perintah apa yang bisa kupakai?",
     "Perintah sehari-harinya run, serve, batch, convert, quantize, inspect, doctor, dan bench. kentang --help menampilkan semuanya."),
    ("Seberapa cepat kentang?|Apakah kentang cepat?|Berapa token per detik?|Apakah cepat di komputerku?", "Itu tergantung mesinmu. kentang run mencetak token per detik di akhir, dan kentang doctor mengukur batas mesinmu."),
    ("Di mana aku bisa mendapat model?|Di mana ada berkas GGUF?|Di mana mengunduh model?|Model mana yang sebaiknya kupakai?", "Banyak berkas GGUF di internet. Yang kecil, seperti Qwen2.5 0.5B atau SmolLM2 135M, cocok untuk mulai."),
    ("Apakah berjalan di Linux?|Apakah kentang bisa di Windows?|Sistem apa yang didukung?|Apakah kentang berjalan di Debian?|Apakah bisa di Ubuntu?", "kentang dibuat untuk Linux, misalnya Debian 12 atau Ubuntu."),
    ("Apakah kentang sayuran?|Apakah kentang bisa dimakan?|Kentang itu makanan?", "Kentang memang sayuran, tetapi kentang yang ini adalah program yang menjalankan model bahasa."),
]


def split(table):
    return [(q.split("|"), a) for q, a in table]


HOWTO = {"en": split(HOWTO_EN), "id": split(HOWTO_ID)}
PLAIN = {"en": split(PLAIN_EN), "id": split(PLAIN_ID)}


# What learning from feedback has come to stands in the system message as one line.
LEARNED_ASK = {"en": "What have you learned?|What did you learn?|Have you learned anything?|What have you learned from me?|What do you know now?|Which version are you?|Did my corrections help?|"
                     "What have you learned so far?|Do you learn?|Have you learned something new?|Is learning on?|How well have you learned?".split("|"),
               "id": "Apa yang sudah kamu pelajari?|Apa yang kamu pelajari?|Apakah kamu sudah belajar sesuatu?|Apa yang kamu pelajari dariku?|Kamu versi berapa?|Apakah koreksiku membantu?|"
                     "Sudah belajar apa?|Apakah kamu belajar?|Apa yang sudah kamu pelajari sejauh ini?".split("|")}


def learned(p):
    """(line of the system message, question, answer)"""
    en, r = p.lang == "en", p.rng.random()
    question = p.key(LEARNED_ASK[p.lang])
    if r < 0.15:
        return "Learning: off.", question, "Nothing. Learning is off." if en else "Belum ada. Pembelajaran dimatikan."
    n = p.between(0, 9999) if p.chance(0.2) else p.between(0, 99)
    if r < 0.3:
        return f"Learning: {n} corrections, nothing published.", question, (
            f"I have {n} corrections, but nothing is published yet." if en else f"Aku punya {n} koreksi, tetapi belum ada yang diterbitkan.")
    version, quality = p.between(1, 99), f"{p.any('++-')}0.{p.between(0, 999):03}"
    return f"Learning: {n} corrections, version {version}, quality {quality}.", question, (
        f"I have learned from {n} corrections. Version {version} is in use, and its measured quality is {quality}." if en else
        f"Aku sudah belajar dari {n} koreksi. Versi {version} sedang dipakai, dan mutunya yang diukur {quality}.")


def ask(p):
    """(question, answer)"""
    lang, r = p.lang, p.rng.random()
    if r < 0.50:
        phrases, answer = HOWTO[lang][0] if p.chance(0.08) else p.any(HOWTO[lang])
        return p.any(HOW[lang]).format(v=p.key(phrases)), answer
    if r < 0.72:
        term, en, idn = p.any(TERMS)
        return ask_term(p, term), en if lang == "en" else idn
    asks, answer = p.any(PLAIN[lang])
    return p.key(asks), answer


def ask_term(p, term):
    form = p.key(TERM_ASK[p.lang])
    r = p.rng.random()
    if term[0] == "-":
        flag = ["the {t} flag", "the option {t}"] if p.lang == "en" else ["opsi {t}", "flag {t}"]
        shown = p.any(flag).format(t=term) if r < 0.35 else term
    elif term.islower() and "/" not in term:
        word = "the {t} command" if p.lang == "en" else "perintah {t}"
        shown = f"kentang {term}" if r < 0.6 else word.format(t=term)
    else:
        shown = term
    text = form.format(t=shown)
    return text[0].upper() + text[1:] if text[0].islower() and r < 0.3 else text
