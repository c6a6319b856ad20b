"""Short stories on request, in Indonesian."""

from corpus import words as W

ASK_TOPIC = """Ceritakan sebuah cerita pendek tentang {t}.|Ceritakan dongeng tentang {t}.|Tulis cerita pendek tentang {t}.
Buatkan cerita tentang {t}.|Bisakah kamu bercerita tentang {t}?|Tolong ceritakan kisah tentang {t}.
Aku ingin mendengar cerita tentang {t}.|Beri aku cerita pendek tentang {t}.|Ceritakan tentang {t}.
Tolong buat cerita singkat tentang {t}.|cerita tentang {t}|Buatlah sebuah cerita tentang {t}.
Saya mau cerita tentang {t}.|Apakah kamu tahu cerita tentang {t}?|Ceritakan dongeng sebelum tidur tentang {t}.
Ceritakan sebuah cerita tentang {t}.|Tulislah dongeng pendek tentang {t}.|cerita pendek tentang {t}
Tuliskan cerita anak tentang {t}.|Bisa ceritakan kisah pendek tentang {t}?""".replace("\n", "|").split("|")

ASK_FREE = """Ceritakan sebuah cerita.|Ceritakan sebuah cerita pendek.|Tulis sebuah cerita.|Bisakah kamu bercerita?
Tolong ceritakan sebuah dongeng.|Aku ingin mendengar cerita.|Apakah kamu tahu sebuah cerita?|Buatkan aku cerita.
Ceritakan dongeng sebelum tidur.|Beri aku sebuah cerita.|Ceritakan cerita lain.|Saya mau dengar dongeng.
dongeng dong|Tulis cerita pendek.|Bacakan aku cerita.""".replace("\n", "|").split("|")

OPEN = ["Pada suatu hari, hiduplah seekor {topic} {adj} bernama {name} {place}.",
        "Dahulu kala, ada seekor {topic} {adj} bernama {name}. Ia tinggal {place}.",
        "Dahulu, {place}, hiduplah seekor {topic} yang {adj} bernama {name}.",
        "Ada seekor {topic} {adj} bernama {name} yang tinggal {place}.",
        "Di sebuah tempat yang indah, {place}, tinggallah seekor {topic} bernama {name}."]

PLACES = ["di tepi sungai", "di pinggir hutan", "di sebuah desa kecil", "di atas bukit", "di dekat danau biru",
          "di rumah kecil di tepi laut", "di bawah pohon beringin", "di lembah yang hijau", "di dekat sawah",
          "di kota yang ramai"]

END = ["Sejak hari itu, {name} tidak pernah kesepian lagi.", "Malam itu, {name} tidur dengan tersenyum.",
       "{name} belajar bahwa {moral}.", "Dan mereka hidup bahagia selamanya.",
       "Sejak saat itu, {name} selalu ingat bahwa {moral}.", "{name} belum pernah sebahagia itu."]

HERO_PLOTS = [
    # lost, fear, found, share, race, learn, storm: the order of WISH
    (["pertolongan kecil sangat berarti", "teman yang baik menunjukkan jalan"], [
        ["Suatu {day}, {name} berjalan terlalu jauh dan tersesat.", "Suatu {day}, {name} mengikuti kupu-kupu dan lupa jalan pulang.",
         "Suatu {day}, kabut tebal datang dan {name} tidak menemukan jalan pulang."],
        ["Ia melihat ke kiri dan ke kanan, tetapi semuanya tampak asing.", "Ia merasa sangat kecil dan mulai menangis.",
         "Hari mulai gelap, dan ia merasa takut."],
        ["Lalu datanglah seekor {friend} dan bertanya, \"Mengapa kamu sedih?\"",
         "Seekor {friend} yang ramah melihatnya dan bertanya, \"Boleh aku bantu?\""],
        ["\"Aku ingin pulang,\" kata {name}.", "\"Aku tersesat,\" kata {name} pelan."],
        ["\"Ikutlah denganku,\" kata {friend} itu. \"Aku tahu jalannya.\"", "{Friend} itu tersenyum dan berkata, \"Mari, aku temani.\""],
        ["Mereka berjalan bersama di bawah bintang sampai terlihat cahaya yang hangat.",
         "Selangkah demi selangkah mereka berjalan sambil bernyanyi, sampai rumah {name} terlihat."],
        ["{name} berterima kasih dan membagi {food} dengan {friend} itu.", "\"Terima kasih!\" kata {name}, lalu mereka makan {food} bersama."]]),
    (["berani berarti tetap mencoba walau takut", "keberanian tumbuh sedikit demi sedikit"], [
        ["{name} takut pada {fear}.", "Ada satu masalah: {name} sangat takut pada {fear}.",
         "Semua menyukai {name}, tetapi ia punya rahasia. Ia takut pada {fear}."],
        ["Suatu {day}, seekor {friend} berteriak minta tolong.", "Suatu {day}, seekor {friend} jatuh ke dalam lubang dan tidak bisa keluar."],
        ["Tidak ada yang lain di dekat sana, dan jantung {name} berdebar kencang.", "{name} gemetar, tetapi ia tidak lari."],
        ["\"Aku harus mencoba,\" katanya sambil menarik napas panjang.", "Ia menutup mata, menghitung sampai tiga, lalu maju.",
         "\"Kalau bukan aku, siapa lagi?\" pikirnya."],
        ["Pelan-pelan ia mendekat, mengambil tali panjang, dan menarik {friend} itu keluar.", "Ia menarik sekuat tenaga sampai {friend} itu selamat."],
        ["\"Kamu berani sekali!\" kata {friend} itu.", "{Friend} itu memeluknya dan berkata, \"Kamu menyelamatkanku!\""],
        ["Setelah itu, {fear} tidak terasa begitu menakutkan lagi.", "{name} tertawa, karena {fear} ternyata tidak begitu menakutkan."]]),
    (["hati yang jujur mendapat teman yang baik", "berbuat benar itu menyenangkan"], [
        ["Suatu {day}, {name} menemukan {thing} yang berkilau di jalan.", "Suatu {day}, {name} melihat sesuatu di rumput. Ternyata sebuah {thing}."],
        ["\"Indah sekali!\" katanya. \"Aku ingin menyimpannya.\"", "Benda itu cantik sekali, dan {name} ingin memilikinya."],
        ["Tetapi kemudian ia berpikir, \"Pasti ada yang kehilangan.\"", "Tetapi ia tahu bahwa benda itu milik orang lain."],
        ["Maka {name} pergi dari rumah ke rumah dan bertanya.", "Maka {name} bertanya kepada semua yang lewat, satu per satu."],
        ["Akhirnya ia bertemu seekor {friend} yang sangat sedih.", "Sore harinya ia bertemu seekor {friend} yang menangis."],
        ["\"Apakah {thing} ini milikmu?\" tanya {name}.", "\"Aku menemukan {thing} ini. Apakah ini milikmu?\" tanya {name}."],
        ["{Friend} itu melompat gembira. \"Terima kasih! Kamu jujur sekali.\"", "\"Ya! Itu pemberian nenekku,\" kata {friend} itu dengan gembira."],
        ["Mereka makan {food} bersama dan menjadi sahabat.", "Sejak hari itu, {name} dan {friend} itu bersahabat."]]),
    (["berbagi membuat semuanya lebih nikmat", "kebaikan selalu kembali"], [
        ["Musim kemarau itu, makanan sulit dicari.", "Pada musim hujan yang panjang, makanan sangat sedikit."],
        ["{name} hanya punya sekeranjang kecil {food}.", "{name} masih menyimpan sedikit {food}."],
        ["Suatu {day}, seekor {friend} yang lapar mengetuk pintu.", "Suatu {day}, datanglah seekor {friend} yang lelah dan lapar."],
        ["\"Apakah kamu punya makanan?\" tanya {friend} itu.", "\"Aku belum makan selama dua hari,\" kata {friend} itu."],
        ["{name} berpikir sebentar lalu berkata, \"Masuklah. Kita makan bersama.\"", "\"Tidak banyak,\" kata {name}, \"tetapi setengahnya untukmu.\""],
        ["Mereka duduk, makan {food}, dan bertukar cerita lucu.", "Mereka makan bersama, dan rumah kecil itu terasa hangat."],
        ["Beberapa minggu kemudian, {friend} itu kembali membawa keranjang penuh {food}.", "Ketika panen tiba, {friend} itu datang lagi dengan membawa banyak makanan."]]),
    (["menolong teman lebih baik daripada menang", "pemenang sejati punya hati yang baik"], [
        ["Setiap tahun ada lomba lari, dan {name} ingin menang.", "Suatu {day}, diadakan lomba lari mengelilingi bukit."],
        ["Ia berlatih setiap pagi.", "Ia sudah berlatih berminggu-minggu."],
        ["Satu, dua, tiga! {name} berlari secepat angin.", "Peluit berbunyi, dan semua mulai berlari."],
        ["Ia hampir sampai ketika mendengar teriakan.", "Di dekat akhir, {name} paling depan. Lalu ia mendengar teriakan."],
        ["Seekor {friend} jatuh dan kakinya terluka.", "Di belakangnya, seekor {friend} tersandung batu."],
        ["{name} berhenti, berbalik, dan menolong {friend} itu berdiri.", "\"Lomba bisa menunggu,\" kata {name}, lalu ia kembali menolong."],
        ["Mereka berjalan bersama sampai akhir dan menjadi yang terakhir.", "Berdampingan mereka sampai di garis akhir, paling belakang."],
        ["Tetapi semua orang bertepuk tangan untuk {name}.", "Tetapi penonton bersorak, dan keduanya mendapat hadiah."]]),
    (["latihan membuat mimpi semakin dekat", "tidak ada yang terlalu kecil untuk belajar"], [
        ["{name} punya mimpi: ia ingin bisa {skill}.", "Lebih dari apa pun, {name} ingin bisa {skill}."],
        ["\"Kamu tidak akan bisa!\" kata yang lain sambil tertawa.", "Tetapi semua berkata, \"Itu bukan untukmu.\""],
        ["{name} sedih, tetapi ia tidak menyerah.", "{name} hanya tersenyum dan mencoba lagi."],
        ["Setiap {day} ia berlatih bersama seekor {friend} tua yang bijak.", "Seekor {friend} tua yang bijak berkata, \"Cobalah sedikit setiap hari.\""],
        ["Hari pertama gagal, hari kedua juga gagal.", "Pada awalnya ia sering salah."],
        ["Tetapi hari demi hari, semuanya menjadi lebih mudah.", "Tetapi dari setiap kesalahan ia belajar sesuatu."],
        ["Pada pesta desa, {name} maju dan mulai {skill}, dan semua kagum.", "Suatu malam ia mencoba lagi, dan akhirnya ia bisa {skill}. Semua bertepuk tangan."],
        ["\"Bagaimana caranya?\" tanya mereka. \"Sedikit demi sedikit,\" jawab {name}.", "{Friend} tua itu mengangguk dan tersenyum. \"Aku sudah tahu sejak dulu,\" katanya."]]),
    (["bersama kita lebih kuat daripada badai", "rumah terasa lebih hangat bersama teman"], [
        ["Suatu {day}, awan gelap datang dan badai mulai turun.", "Suatu {day}, angin bertiup kencang dan hujan turun deras."],
        ["{name} aman dan hangat di dalam rumah.", "{name} menutup jendela dan memasak sup hangat."],
        ["Tiba-tiba ia mendengar suara kecil di luar: \"Tolong!\"", "Lalu ia mendengar seseorang mengetuk pintu."],
        ["Ternyata seekor {friend} yang basah dan kedinginan.", "Di sana berdiri seekor {friend} yang kehilangan rumahnya."],
        ["\"Cepat masuk!\" kata {name}.", "{name} membuka pintu lebar-lebar. \"Masuklah!\" katanya."],
        ["Mereka makan {food} sambil mendengarkan hujan.", "{name} memberi {friend} itu selimut dan {food}."],
        ["Esok paginya matahari bersinar, dan mereka membangun rumah baru bersama.", "Pagi harinya langit kembali biru, dan semua tetangga datang membantu membangun rumah baru."],
        ["Rumah itu berdiri tepat di sebelah rumah {name}.", "Sekarang mereka bertetangga dan bertemu setiap hari."]]),
]

# What a question may say about each plot.
WISH = [[" yang tersesat", " yang ingin pulang"], [" yang takut pada {fear}", " yang takut {fear}", " yang menjadi berani"],
        [" yang menemukan {thing}", " yang jujur", " dan sebuah {thing}"], [" yang suka berbagi", " yang baik hati"],
        [" yang ikut lomba lari", " dalam lomba lari"], [" yang ingin bisa {skill}", " yang belajar {skill}", " yang ingin {skill}"],
        [" saat badai", " dalam badai", " di hari hujan"]]

OBJECT_PLOTS = [
    (["benda lama masih bisa membuat orang bahagia", "dengan sabar, hampir semua bisa diperbaiki"], [
        ["Suatu {day}, {name} menemukan {topic} tua di gudang.", "Ada seorang anak bernama {name}. Suatu {day}, ia menemukan {topic} yang rusak."],
        ["Benda itu berdebu dan sudah lama dilupakan.", "Bentuknya kusam dan penuh debu."],
        ["\"Buang saja,\" kata kakaknya.", "\"Itu sudah tidak berguna,\" kata para tetangga."],
        ["Tetapi {name} berkata, \"Tidak, aku akan membuatnya indah lagi.\"", "Tetapi {name} membawanya pulang dan mulai bekerja."],
        ["Ia membersihkannya, memperbaikinya, dan mengecatnya dengan warna {color}.", "Selama seminggu ia mencuci, memperbaiki, dan memberinya warna {color}."],
        ["Akhirnya {topic} itu tampak seperti baru.", "Akhirnya {topic} itu berkilau di bawah matahari."],
        ["{name} memberikannya kepada nenek, dan nenek menangis bahagia.", "{name} menunjukkannya kepada kakek. \"Ini milik kakek waktu kecil!\" katanya."]]),
    (["setiap orang istimewa bagi seseorang", "seorang teman layak ditunggu"], [
        ["Di jendela sebuah toko kecil ada {topic} berwarna {color}.", "Dahulu ada sebuah {topic} {color} di toko tua."],
        ["Setiap hari ia melihat orang lewat, tetapi tidak ada yang mau membelinya.", "Ia menunggu dan menunggu, tetapi tidak ada yang membawanya pulang."],
        ["\"Aku terlalu kecil dan biasa,\" pikir {topic} itu.", "\"Mungkin tidak ada yang membutuhkanku,\" pikir {topic} itu dengan sedih."],
        ["Suatu {day}, seorang anak bernama {name} berhenti di depan jendela.", "Lalu suatu {day}, seorang anak bernama {name} masuk ke toko."],
        ["\"Lihat!\" kata {name}. \"Itulah yang selalu aku impikan!\"", "\"{Topic} ini sempurna!\" kata {name}."],
        ["Ia membayar dengan tiga keping uang dan membawanya pulang.", "Ia membawanya pulang dengan sangat hati-hati."],
        ["Sejak hari itu, {name} dan {topic} {color} itu selalu bersama.", "{Topic} itu mendapat tempat di samping tempat tidurnya."]]),
    (["teman yang menolong lebih berharga daripada harta", "meminta bantuan itu baik"], [
        ["{name} punya {topic} berwarna {color} dan sangat menyukainya.", "Ada seorang anak bernama {name} yang punya {topic} yang indah."],
        ["Suatu {day}, {topic} itu hilang.", "Tetapi suatu {day}, ia tidak menemukan {topic} itu di mana pun."],
        ["{name} mencari di bawah kasur, di belakang pintu, dan di kebun.", "Ia mencari di setiap kamar dan setiap sudut."],
        ["\"Jangan sedih,\" kata temannya, {fname}. \"Kita cari bersama.\"", "Temannya, {fname}, berkata, \"Dua pasang mata melihat lebih banyak.\""],
        ["Mereka bertanya kepada penjual roti, guru, dan kakek tua.", "Mereka berjalan keliling desa dan bertanya kepada semua orang."],
        ["Akhirnya {fname} melihat sesuatu berwarna {color} di bawah pohon.", "Lalu terdengar suara dari rumput, dan {fname} berlari melihatnya."],
        ["Itu dia {topic} itu! Seekor {friend} kecil tidur di sampingnya.", "Di sanalah {topic} itu, dan seekor {friend} sedang bermain dengannya."],
        ["Mereka semua tertawa dan bermain sampai sore.", "{name} tertawa dan berkata, \"Lain kali kita main bersama.\""]]),
]

PLACE_PLOT = (["dunia penuh dengan keajaiban kecil", "hari yang indah lebih indah bersama teman"], [
    ["{name} selalu ingin melihat {topic}.", "Ada seorang anak bernama {name} yang bermimpi pergi ke {topic}."],
    ["Suatu {day}, ia membawa {food} dan sebotol air.", "Suatu {day}, kakeknya berkata, \"Hari ini kita pergi ke sana.\""],
    ["Jalannya panjang, tetapi burung-burung bernyanyi.", "Mereka berjalan lama sekali, dan {name} bertanya, \"Apakah sudah sampai?\""],
    ["Ketika akhirnya melihat {topic} itu, ia tidak bisa berkata apa-apa.", "Akhirnya tampaklah {topic} itu, lebih indah daripada dalam mimpi."],
    ["Di sana ia bertemu seekor {friend} yang berkata, \"Selamat datang!\"", "Seekor {friend} keluar dan menyapanya."],
    ["Mereka bermain dan tertawa sepanjang hari.", "Mereka melihat semuanya dan bertukar cerita."],
    ["Sore harinya, {name} menemukan batu putih kecil dan membawanya pulang.", "Ketika matahari terbenam, ia pulang dengan lelah dan gembira."]])

THEME_PLOT = (["hal terbaik dalam hidup tidak bisa dibeli", "hal kecil bisa mengubah satu hari"], [
    ["{name} adalah anak yang {adj} dan sangat menyukai {topic}.", "Ada seorang anak bernama {name} yang sering memikirkan {topic}."],
    ["Tetapi di kotanya, tidak ada yang peduli pada {topic}.", "Suatu {day} ia bertanya, \"Mengapa tidak ada yang bicara tentang {topic}?\""],
    ["\"Kami tidak punya waktu,\" kata orang-orang.", "\"Kami terlalu sibuk,\" kata penjual roti dan guru."],
    ["Maka {name} mengundang semua orang ke pesta kecil di kebun.", "Maka {name} menulis: \"Datanglah besok dan ajak seorang teman!\""],
    ["Mula-mula hanya {fname} yang datang, lalu seluruh kota.", "Pada awalnya tidak ada yang datang. Lalu datang {fname}, kemudian semakin banyak orang."],
    ["Mereka bernyanyi, makan {food}, dan berbicara tentang {topic}.", "Semua berbicara tentang {topic} sambil makan {food}."],
    ["\"Kita harus melakukannya setiap tahun,\" kata penjual roti.", "\"Sekarang aku mengerti,\" kata guru sambil tersenyum."]])

PAIR_PLOT = (["teman lebih berharga daripada merasa benar", "meminta maaf adalah langkah pertama"], [
    ["Dahulu ada seekor {topic} bernama {name} dan seekor {topic2} bernama {fname}.", "{name} si {topic} dan {fname} si {topic2} bersahabat."],
    ["Mereka bermain bersama setiap hari.", "Setiap hari mereka bertemu {place}."],
    ["Tetapi suatu {day}, mereka menginginkan {thing} yang sama.", "Suatu {day}, mereka menemukan {thing} dan keduanya ingin memilikinya."],
    ["\"Ini milikku!\" kata {name}. \"Bukan, milikku!\" kata {fname}.", "Mereka bertengkar dan pulang dengan marah."],
    ["Keesokan harinya terasa sepi dan membosankan.", "Malam itu, keduanya tidak bisa tidur."],
    ["Maka {name} membawa {thing} itu dan mengetuk pintu {fname}.", "Pagi harinya, {name} datang kepada {fname} membawa {thing} itu."],
    ["\"Maafkan aku,\" kata {name}. \"Ini untukmu.\"", "\"Maafkan aku,\" kata {name}. \"Aku lebih merindukanmu daripada {thing} ini.\""],
    ["\"Mari kita pakai bersama,\" kata {fname}, dan mereka tertawa.", "{fname} tersenyum. \"Kita bisa berbagi,\" katanya."]])

DAYS = ["hari", "pagi", "sore", "malam"]
FEARS = ["gelap", "air yang dalam", "petir", "suara keras", "tempat tinggi", "orang asing"]
SKILLS = ["bernyanyi", "menari", "berenang", "bermain gendang", "melukis", "membuat roti", "memanjat pohon"]
THINGS = ["cincin", "kunci", "koin", "bola", "lonceng", "buku", "peluit", "kalung", "topi", "lampu"]
COLORS = ["merah", "biru", "hijau", "kuning", "putih", "ungu"]


def fillings(p, topic):
    name, fname = p.key(W.NAMES_ID), p.key(W.NAMES_ID)
    while fname == name:
        fname = p.any(W.NAMES_ID)
    friend = p.any([w for w in (p.any(W.FRIENDS_ID), p.any(W.FRIENDS_ID)) if w != topic] or ["burung"])
    return {"topic": topic, "Topic": topic.capitalize(), "t": topic, "name": name, "fname": fname, "friend": friend,
            "Friend": friend.capitalize(), "adj": p.any(W.ADJ_ID), "place": p.any(PLACES), "food": p.any(W.FOODS_ID),
            "day": p.any(DAYS), "fear": p.any(FEARS), "skill": p.any(SKILLS), "thing": p.any(THINGS),
            "color": p.any(COLORS)}


def render(p, plot, f, opening, person=False):
    morals, slots = plot
    f["moral"] = p.any(morals)
    first = p.any(OPEN).replace("seekor", "seorang") if person else p.any(OPEN)
    lines = ([first] if opening else []) + [p.any(s) for s in slots] + [p.any(END)]
    return " ".join(lines).format(**f)


def tell(p):
    """(question, answer)"""
    kind = p.rng.random()
    if kind < 0.10:
        return tell_free(p)
    if kind < 0.16:
        return tell_pair(p)
    if kind < 0.62:
        return tell_hero(p)
    if kind < 0.86:
        plot, f = thing(p)
    elif kind < 0.92:
        plot, f = PLACE_PLOT, fillings(p, p.key(W.PLACES_ID))
    else:
        plot, f = THEME_PLOT, fillings(p, p.key(W.THEMES_ID))
    return p.key(ASK_TOPIC).format(**f), render(p, plot, f, False)


def tell_hero(p):
    person = p.chance(0.35)
    topic = p.made_up() if p.chance(0.12) else p.key(W.PEOPLE_ID if person else W.ANIMALS_ID)
    f = fillings(p, topic)
    f["t"] = p.any(["seorang " if person else "seekor ", "", ""]) + topic
    plot, r = p.between(0, len(HERO_PLOTS) - 1), p.rng.random()
    if r < 0.18:
        f["t"] += p.any([" ", " yang "]) + f["adj"]
    elif r < 0.30:
        f["t"] += " bernama " + f["name"]
    elif r < 0.50:
        f["t"] += p.any(WISH[plot]).format(**f)
    return p.key(ASK_TOPIC).format(**f), render(p, HERO_PLOTS[plot], f, True, person)


def thing(p):
    """Plot and filling for a thing, sometimes with a wish."""
    f = fillings(p, p.key(W.OBJECTS_ID))
    plot, r = p.between(0, len(OBJECT_PLOTS) - 1), p.rng.random()
    f["t"] = p.any(["sebuah ", "", ""]) + f["topic"]
    if r < 0.2:
        f["t"] += [" tua", " yang kesepian", " yang hilang"][plot]
    elif r < 0.4:
        f["t"] += " " + f["color"]
        plot = max(plot, 1)
    return OBJECT_PLOTS[plot], f


def tell_free(p):
    f = fillings(p, p.any(W.ANIMALS_ID[:40]))
    return p.key(ASK_FREE), render(p, p.any(HERO_PLOTS), f, True)


def tell_pair(p):
    f = fillings(p, p.key(W.ANIMALS_ID))
    f["topic2"] = p.key(W.ANIMALS_ID)
    while f["topic2"] == f["topic"]:
        f["topic2"] = p.any(W.ANIMALS_ID)
    one, two = ("seekor {topic}", "seekor {topic2}") if p.chance(0.4) else ("{topic}", "{topic2}")
    f["t"] = (one + " dan " + two).format(**f)
    return p.key(ASK_TOPIC).format(**f), render(p, PAIR_PLOT, f, False)
